#include "calibrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <boost/math/statistics/bivariate_statistics.hpp>
#include <boost/math/statistics/univariate_statistics.hpp>
#include <boost/math/tools/roots.hpp>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {

namespace {

namespace statistics = boost::math::statistics;

// From 1; equal values have the mean of their ranks.
std::vector<double> mean_ranks(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto smaller =
        std::ranges::count_if(values, [value](double other) { return other < value; });
    const auto equal = std::count(values.begin(), values.end(), value);
    ranks.push_back(static_cast<double>(smaller) + (static_cast<double>(equal) + 1.0) / 2.0);
  }
  return ranks;
}

// Also of nothing.
bool all_equal(const std::vector<double>& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to{}) == values.end();
}

using sim::student_quantile;

constexpr double kMostLogScale = 3.0;  // ln 20
constexpr int kRefinements = 8;        // of the grid, each to a third
constexpr int kGrid = 9;               // points on either side of its middle

double log_likelihood(const std::vector<std::pair<double, double>>& weighted,
                      const TwoPieceStudent& student) {
  const double norm = std::log(student.below + student.above);
  double sum = 0.0;
  for (const auto& [z, weight] : weighted) {
    const double x = z / (z < 0.0 ? student.below : student.above);
    sum -= weight *
           (norm + 0.5 * (sim::kStudentFreedom + 1.0) * std::log1p(x * x / sim::kStudentFreedom));
  }
  return sum;
}

}  // namespace

double mean(const std::vector<double>& values) { return statistics::mean(values); }

double median(std::vector<double> values) { return statistics::median(values); }

std::optional<double> mean_if_any(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(mean(values));
}

std::optional<double> median_if_any(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

double scatter(const std::vector<double>& values) {
  return values.size() < 2 ? 0.0 : std::sqrt(statistics::sample_variance(values));
}

double weighted_quantile(std::vector<std::pair<double, double>> weighted, double p) {
  std::ranges::sort(weighted);
  double all = 0.0, below = 0.0;
  for (const auto& [value, weight] : weighted) all += weight;
  for (const auto& [value, weight] : weighted) {
    below += weight;
    if (below >= p * all) return value;
  }
  return weighted.back().first;
}

std::optional<double> rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  if (all_equal(x) || all_equal(y)) return std::nullopt;
  return statistics::correlation_coefficient(mean_ranks(x), mean_ranks(y));
}

double shared_degrees(const std::vector<GroupVariance>& groups) {
  constexpr double kLeast = 0.1, kMost = 100.0;
  std::vector<double> logarithms, sampling;
  for (const GroupVariance& group : groups) {
    const double half = 0.5 * group.degrees;
    logarithms.push_back(std::log(group.variance) - boost::math::digamma(half) + std::log(half));
    sampling.push_back(boost::math::trigamma(half));
  }
  const double spread = scatter(logarithms), sought = spread * spread - mean(sampling);
  const auto beyond = [&](double degrees) { return boost::math::trigamma(0.5 * degrees) - sought; };
  if (beyond(kMost) >= 0.0) return kMost;
  if (beyond(kLeast) <= 0.0) return kLeast;
  const auto [low, high] = boost::math::tools::bisect(
      beyond, kLeast, kMost, [](double a, double b) { return b - a < 1e-6; });
  return 0.5 * (low + high);
}

std::string three_digits(double value) { return fmt::format("{:.3g}", value); }

double TwoPieceStudent::quantile(double p) const {
  const double share = below / (below + above);
  return p < share ? below * student_quantile(0.5 * p / share)
                   : above * student_quantile(0.5 + 0.5 * (p - share) / (1.0 - share));
}

TwoPieceStudent fit_two_piece(const std::vector<std::pair<double, double>>& weighted) {
  if (weighted.empty()) return {};
  double below = 0.0, above = 0.0, step = kMostLogScale / kGrid;
  for (int refinement = 0; refinement < kRefinements; ++refinement, step /= 3.0) {
    const double middle_below = below, middle_above = above;
    double best = -std::numeric_limits<double>::infinity();
    for (int i = -kGrid; i <= kGrid; ++i) {
      for (int j = -kGrid; j <= kGrid; ++j) {
        const double a = middle_below + i * step, b = middle_above + j * step;
        if (std::abs(a) > kMostLogScale || std::abs(b) > kMostLogScale) continue;
        const double likelihood = log_likelihood(weighted, {std::exp(a), std::exp(b)});
        if (likelihood > best) best = likelihood, below = a, above = b;
      }
    }
  }
  return {std::exp(below), std::exp(above)};
}

}  // namespace llmsim::calibrate
