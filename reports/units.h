// Numbers for people: which unit a quantity is shown in, and with how many digits.
//
// Machine formats never use this file; they print base units (bytes, seconds,
// FLOP) in full precision.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/quantity.h"

namespace llmsim::reports {

// The kind of value of a column.
//   Text, Integer      as they are
//   Number             a plain number without unit
//   Percent            a ratio, 1.0 = 100 %; people read "51.2 %", machines 0.512
//   Factor             a ratio to a best or base value; people read "1.07x", machines 1.07
//   TokensPerSecond    a rate of tokens
//   others             the quantity of that name, in base units
enum class Kind {
  Text,
  Integer,
  Number,
  Percent,
  Factor,
  TokensPerSecond,
  Bytes,
  Seconds,
  Flops,
  BytesPerSecond,
  FlopsPerSecond
};

// A unit to print in.  `size` is the number of base units that one of it holds.
struct Unit {
  std::string name;  // empty where none is printed
  double size = 1.0;
};

// The largest unit of which `magnitude` (in base units) is at least one; the smallest unit of the
// kind below that.  Bytes in powers of 1024 (KiB, MiB, GiB), everything else in powers of 1000
// (GB/s, TFLOP/s), times from ns to days.
Unit unit_for(Kind kind, double magnitude);

// `value` with `digits` significant digits in fixed notation: 1234567 -> "1234567", 12.3456 ->
// "12.35", 0.00123456 -> "0.001235".  Below 1e-4 in scientific notation.  Zero is "0"; a value that
// is not finite is "-".
std::string significant(double value, int digits = 4);

// An integer with thousands separated: 68976648192 -> "68,976,648,192".
std::string grouped(std::int64_t value);

// One value with its unit: "24.51 s", "63.20 GiB", "412.0 TFLOP/s".
std::string human(sim::Bytes value);
std::string human(sim::Seconds value);
std::string human(sim::Flops value);
std::string human(sim::FlopsPerSecond value);

// A ratio as "51.2 %".
std::string percent(double ratio);

// The shortest decimal text that reads back as `value`; "0" for zero, empty where it is not finite.
std::string exact(double value);

// A key as words: "attention_norm" as "attention norm".
std::string with_spaces(std::string key);

}  // namespace llmsim::reports
