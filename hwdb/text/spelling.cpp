#include "hwdb/text/spelling.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "sim/base/error.h"

namespace llmsim::hwdb {

std::string folded(std::string_view name) {
  std::string result(name);
  for (char& c : result)
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

int misspelling(std::string_view name, std::string_view candidate) {
  constexpr std::size_t kShortestBeginning = 3;
  constexpr int kBeforeAll = 1 << 20;  // of edits
  const bool goes_on = name.size() >= kShortestBeginning && candidate.starts_with(name);
  return goes_on ? static_cast<int>(candidate.size()) - kBeforeAll : edit_distance(name, candidate);
}

std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestName = 200;  // longer input is no misspelling
  if (name.size() > kLongestName) return std::nullopt;
  const std::string* best = nullptr;
  int least = 0;
  for (const std::string& candidate : candidates) {
    const int distance = misspelling(name, candidate);
    if (best && distance >= least) continue;
    best = &candidate;
    least = distance;
  }
  const auto half = [&] { return static_cast<int>(std::max(name.size(), best->size())) / 2; };
  return best && least <= half() ? std::optional(*best) : std::nullopt;
}

std::string did_you_mean(const std::vector<std::string>& near) {
  return near.empty() ? "" : "; did you mean " + sim::joined(near, ", ") + "?";
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::optional<std::string> candidate = nearest(name, candidates);
  return did_you_mean(candidate ? std::vector{*candidate} : std::vector<std::string>{});
}

}  // namespace llmsim::hwdb
