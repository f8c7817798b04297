#include "calibrate/group_shifts.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace llmsim::calibrate {

namespace {

constexpr double kNegligible = 0.005;

}  // namespace

std::string group_shifts_text(std::string_view of, const std::map<std::string, double>& shifts) {
  std::vector<std::pair<double, std::string_view>> strong;
  for (const auto& [group, shift] : shifts)
    if (std::abs(shift) >= kNegligible) strong.emplace_back(shift, group);
  std::ranges::sort(
      strong, [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });

  std::string text = std::string(of) + std::to_string(shifts.size()) + " groups";
  const char* separator = ": ";
  for (const auto& [shift, group] : strong) {
    text += fmt::format("{}{} {:+.1f} %", separator, group, 100.0 * shift);
    separator = ", ";
  }
  return text;
}

}  // namespace llmsim::calibrate
