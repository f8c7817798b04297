#include "reports/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>

#include <fmt/format.h>

#include "sim/base/number_text.h"

namespace llmsim::reports {
namespace {

struct NamedSize {
  const char* name;
  double size;
};

constexpr std::array<NamedSize, 6> kBytes{{{"B", 1.0},
                                           {"KiB", 0x1p10},
                                           {"MiB", 0x1p20},
                                           {"GiB", 0x1p30},
                                           {"TiB", 0x1p40},
                                           {"PiB", 0x1p50}}};
constexpr std::array<NamedSize, 6> kSeconds{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"h", 3600.0}, {"d", 86400.0}}};
constexpr std::array<NamedSize, 7> kFlops{{{"FLOP", 1.0},
                                           {"MFLOP", 1e6},
                                           {"GFLOP", 1e9},
                                           {"TFLOP", 1e12},
                                           {"PFLOP", 1e15},
                                           {"EFLOP", 1e18},
                                           {"ZFLOP", 1e21}}};
constexpr std::array<NamedSize, 5> kByteRates{
    {{"B/s", 1.0}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}};
constexpr std::array<NamedSize, 5> kFlopRates{
    {{"FLOP/s", 1.0}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};
// Utilisation tables are read in TFLOP/s even where a device passes 1000 of them.
constexpr double kLargestFlopRate = 1e17;

Unit largest_below(std::span<const NamedSize> units, double magnitude) {
  NamedSize chosen = units.front();
  for (const NamedSize& unit : units) {
    if (unit.size <= magnitude) chosen = unit;
  }
  return {chosen.name, chosen.size};
}

std::string with_unit(Kind kind, double value) {
  if (!std::isfinite(value)) return "-";
  if (value == 0.0) return "0 " + unit_for(kind, 1.0).name;
  const Unit unit = unit_for(kind, std::abs(value));
  return significant(value / unit.size) + " " + unit.name;
}

}  // namespace

Unit unit_for(Kind kind, double magnitude) {
  switch (kind) {
    case Kind::Bytes: return largest_below(kBytes, magnitude);
    case Kind::Seconds: return largest_below(kSeconds, magnitude);
    case Kind::Flops: return largest_below(kFlops, magnitude);
    case Kind::BytesPerSecond: return largest_below(kByteRates, magnitude);
    case Kind::FlopsPerSecond:
      return largest_below(
          magnitude < kLargestFlopRate ? std::span(kFlopRates).first(4) : std::span(kFlopRates),
          magnitude);
    case Kind::Percent: return {"%", 0.01};
    case Kind::Factor: return {"x", 1.0};
    case Kind::TokensPerSecond: return {"tokens/s", 1.0};
    case Kind::Text:
    case Kind::Integer:
    case Kind::Number: break;
  }
  return {};
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0.0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude < 1e-4 || magnitude >= 1e15) return fmt::format("{:.{}e}", value, digits - 1);
  int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  // 9.9996 -> 10.00.
  if (std::round(magnitude * std::pow(10.0, digits - 1 - exponent)) >= std::pow(10.0, digits))
    ++exponent;
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
}

std::string grouped(std::int64_t value) {
  // fmt 9 groups numbers without a sign.
  return fmt::format("{}{}", value < 0 ? "-" : "", fmt::group_digits(std::abs(value)));
}

std::string human(sim::Bytes value) { return with_unit(Kind::Bytes, value.value()); }
std::string human(sim::Seconds value) {
  return value == sim::Seconds(0.0) ? "0 s" : with_unit(Kind::Seconds, value.value());
}
std::string human(sim::Flops value) { return with_unit(Kind::Flops, value.value()); }
std::string human(sim::FlopsPerSecond value) {
  return with_unit(Kind::FlopsPerSecond, value.value());
}

std::string percent(double ratio) {
  return std::isfinite(ratio) ? significant(ratio / 0.01, 3) + " %" : "-";
}

std::string exact(double value) {
  if (!std::isfinite(value)) return "";
  if (value == 0.0) return "0";
  return sim::shortest_text(value);
}

std::string with_spaces(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

}  // namespace llmsim::reports
