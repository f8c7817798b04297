#include "sim/base/number_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ios>
#include <locale>
#include <sstream>

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

std::string divisors_text(int n) {
  std::string list;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) list += (list.empty() ? "" : ", ") + std::to_string(d);
  }
  return list;
}

}  // namespace llmsim::sim
