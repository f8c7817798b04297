#include "calibrate/group_shifts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace llmsim::calibrate {

namespace {

constexpr double kNegligible = 0.005;

}  // namespace

std::string group_shifts_text(std::string_view of, const std::map<std::string, double>& shifts) {
  std::vector<std::pair<double, std::string_view>> strong;
  for (const auto& [group, shift] : shifts)
    if (std::abs(shift) >= kNegligible) strong.emplace_back(shift, group);
  std::sort(strong.begin(), strong.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });

  std::string text = std::string(of) + std::to_string(shifts.size()) + " groups";
  const char* separator = ": ";
  for (const auto& [shift, group] : strong) {
    std::array<char, 32> percent;
    std::snprintf(percent.data(), percent.size(), " %+.1f %%", 100.0 * shift);
    text.append(separator).append(group).append(percent.data());
    separator = ", ";
  }
  return text;
}

}  // namespace llmsim::calibrate
