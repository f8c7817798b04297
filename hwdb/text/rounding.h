// Values as they are written to files.
#pragma once

#include <string>

#include <fmt/format.h>

namespace llmsim::hwdb {

// To so many significant digits, 1 to 17: 0.0123456 to 4 is 0.01235.
inline double rounded(double value, int digits) {
  return std::stod(fmt::format("{:.{}g}", value, digits));
}

}  // namespace llmsim::hwdb
