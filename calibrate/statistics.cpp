#include "calibrate/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
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

double scatter(const std::vector<double>& values) {
  double squares = 0.0;
  for (const double value : values) squares += (value - mean(values)) * (value - mean(values));
  return std::sqrt(squares / std::max(1.0, static_cast<double>(values.size()) - 1.0));
}

std::string three_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

}  // namespace llmsim::calibrate
