#include "sim/base/number_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ios>
#include <locale>
#include <sstream>

#include "sim/base/error.h"

namespace llmsim::sim {
namespace {

constexpr int kMostDigits = 17;  // enough for every double

std::string printed(double number, int decimals, std::ios_base& (*notation)(std::ios_base&)) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.precision(decimals);
  text << notation << number;
  return text.str();
}

}  // namespace

std::string shortest_text(double number) {
  int decimals = 0;
  std::string scientific = printed(number, decimals, std::scientific);
  while (std::strtod(scientific.c_str(), nullptr) != number && decimals + 1 < kMostDigits)
    scientific = printed(number, ++decimals, std::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  const std::string fixed = printed(number, std::max(0, decimals - exponent), std::fixed);
  return fixed.size() <= scientific.size() ? fixed : scientific;
}

std::optional<double> number_from(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::string equals(const std::string& name, std::int64_t value) {
  return name + " = " + std::to_string(value);
}

void require_divides(const std::string& name, int value, const std::string& whole_name, int whole) {
  if (whole % value == 0) return;
  std::string divisors;
  for (int d = 1; d <= whole; ++d) {
    if (whole % d == 0) divisors += (divisors.empty() ? "" : ", ") + std::to_string(d);
  }
  throw Error(equals(name, value) + " does not divide " + equals(whole_name, whole) + " (" +
              divisors + " do)");
}

}  // namespace llmsim::sim
