#include "runtime/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace llmsim::runtime {
namespace {

constexpr double kNormalDeviation = 1.4826;  // of a median absolute deviation
constexpr double kHalfQuantile = 0.98;       // 1.96 / 2

// Of sorted values.
double median_of(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

double interval_of(const std::vector<double>& sorted) {
  const double n = static_cast<double>(sorted.size()), reach = kHalfQuantile * std::sqrt(n);
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2.0 - reach)));
  const auto high = static_cast<std::size_t>(std::min(n - 1.0, std::ceil(n / 2.0 + reach)));
  return sorted[high] - sorted[low];
}

}  // namespace

Timing summary(std::vector<sim::Seconds> times) {
  std::vector<double> values;
  for (const sim::Seconds time : times) values.push_back(time.value());
  std::sort(values.begin(), values.end());
  const double middle = median_of(values);
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - middle));
  std::sort(deviations.begin(), deviations.end());
  const double unit = middle > 0.0 ? middle : 1.0;
  return {.median = sim::Seconds(middle),
          .mean = sim::Seconds(std::accumulate(values.begin(), values.end(), 0.0) /
                               static_cast<double>(values.size())),
          .spread = kNormalDeviation * median_of(deviations) / unit,
          .half_width = 0.5 * interval_of(values) / unit,
          .repeats = static_cast<int>(values.size())};
}

Timing repeated(const std::function<sim::Seconds()>& once, const RepeatOptions& options) {
  sim::Seconds spent;
  for (int i = 0; i < options.warm_up; ++i) spent += once();
  std::vector<sim::Seconds> times;
  Timing timing;
  do {
    times.push_back(once());
    spent += times.back();
    timing = summary(times);
    const bool enough = timing.repeats >= options.least;
    if (enough && (timing.half_width <= options.precision || spent >= options.budget)) break;
  } while (timing.repeats < options.most);
  return timing;
}

}  // namespace llmsim::runtime
