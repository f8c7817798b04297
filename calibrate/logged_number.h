// Numbers as logs print them: with thousands separated by commas ("6,150"), a decimal suffix K, M,
// B, G or T ("3.2K"), a binary unit, which is then the unit ("47.65GiB"), or a per cent sign.
#pragma once

#include <optional>
#include <string_view>

namespace llmsim::calibrate {

// A printed number in base units, and half a unit of its last digit.
struct Reading {
  double value = 0.0;
  double rounding = 0.0;

  double relative_rounding() const { return rounding / value; }
};

// The number at the start of `text`, which counts in `unit`.  None where there is none, and for
// "nan" and "inf".
std::optional<Reading> reading_at(std::string_view text, double unit = 1.0);

}  // namespace llmsim::calibrate
