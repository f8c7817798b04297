#include "calibrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace llmsim::calibrate {
namespace {

// From 1; equal values have the mean of their ranks.
std::vector<double> mean_ranks(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto smaller = std::count_if(values.begin(), values.end(),
                                       [value](double other) { return other < value; });
    const auto equal = std::count(values.begin(), values.end(), value);
    ranks.push_back(static_cast<double>(smaller) + (static_cast<double>(equal) + 1.0) / 2.0);
  }
  return ranks;
}

double summed_deviations(const std::vector<double>& x, const std::vector<double>& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0) -
         static_cast<double>(x.size()) * mean(x) * mean(y);
}

}  // namespace

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

std::optional<double> rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.empty()) return std::nullopt;
  const std::vector<double> a = mean_ranks(x), b = mean_ranks(y);
  const double squares = summed_deviations(a, a) * summed_deviations(b, b);
  if (squares <= 0.0) return std::nullopt;
  return summed_deviations(a, b) / std::sqrt(squares);
}

std::string three_digits(double value) { return fmt::format("{:.3g}", value); }

}  // namespace llmsim::calibrate
