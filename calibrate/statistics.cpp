#include "calibrate/statistics.h"

#include <algorithm>
#include <numeric>

namespace llmsim::calibrate {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

std::optional<double> mean_if_any(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(mean(values));
}

std::optional<double> median_if_any(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

}  // namespace llmsim::calibrate
