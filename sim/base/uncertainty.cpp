#include "sim/base/uncertainty.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace llmsim::sim {

Estimate<double> combined(double value, std::span<const OutputInterval> intervals) {
  if (value <= 0.0 || !std::isfinite(value)) return {value, value, value};
  double down = 0.0, up = 0.0;
  for (const OutputInterval& interval : intervals) {
    const double least = std::min({interval.one, interval.other, value});
    const double most = std::max({interval.one, interval.other, value});
    down += std::pow(std::log(value / least), 2.0);
    up += std::pow(std::log(most / value), 2.0);
  }
  return {value, value * std::exp(-std::sqrt(down)), value * std::exp(std::sqrt(up))};
}

Uncertain<double> pooled(std::span<const double> values) {
  assert(values.size() >= 2);
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0,
                                      [](double sum, double x) { return sum + std::log(x); }) /
                      n;
  const double squares = std::accumulate(
      values.begin(), values.end(), 0.0,
      [mean](double sum, double x) { return sum + std::pow(std::log(x) - mean, 2.0); });
  return {std::exp(mean), std::sqrt(squares / (n - 1.0) * (1.0 + 1.0 / n))};
}

Uncertain<double> between(double a, double b) {
  return {std::sqrt(a * b), std::abs(std::log(a / b)) / (2.0 * kIntervalDeviations)};
}

double expected_largest(double n) {
  const double p = (n - 0.375) / (n + 0.25);
  return 4.91 * (std::pow(p, 0.14) - std::pow(1.0 - p, 0.14));
}

double student_probability(double t) {
  // Far out, where t^2 is infinite, s is that of the limit.
  const double s = std::isinf(t) ? std::copysign(1.0, t) : t / std::hypot(2.0, t);
  return std::clamp(0.5 + 0.75 * (s - s * s * s / 3.0), 0.0, 1.0);
}

double student_quantile(double p) {
  const double root = std::sqrt(4.0 * p * (1.0 - p));
  const double size = 2.0 * std::sqrt(std::max(0.0, std::cos(std::acos(root) / 3.0) / root - 1.0));
  return p < 0.5 ? -size : size;
}

}  // namespace llmsim::sim
