#include "calibrate/outcome_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
namespace {

constexpr int kGridSteps = 20;           // on either side of the prior's mean
constexpr double kGridReach = 3.0;       // prior deviations
constexpr std::size_t kQuadrature = 32;  // equally likely values of a study's effect
// A study may have lost its run to something else: no outcome is impossible.
constexpr double kLeastProbability = 1e-3;

using OutcomesOfStudy = std::vector<Outcome>;

const std::array<double, kQuadrature>& student_values() {
  static const std::array<double, kQuadrature> values = [] {
    std::array<double, kQuadrature> all{};
    for (std::size_t i = 0; i < kQuadrature; ++i)
      all[i] = sim::student_quantile((static_cast<double>(i) + 0.5) / kQuadrature);
    return all;
  }();
  return values;
}

bool reports_both(const OutcomesOfStudy& study) {
  const auto ran = [](const Outcome& outcome) { return outcome.ran; };
  return std::ranges::any_of(study, ran) && !std::ranges::all_of(study, ran);
}

// The logarithm of the probability of a study's outcomes, at one location and one k.
double log_evidence(const OutcomesOfStudy& study, double location, double k, double share) {
  const double of_study = std::sqrt(share), of_run = std::sqrt(1.0 - share);
  std::array<double, kQuadrature> logs{};
  for (std::size_t i = 0; i < kQuadrature; ++i) {
    for (const Outcome& o : study) {
      const double z = (o.room - location) / (k * o.scale) - of_study * student_values()[i];
      const double ran = sim::student_probability(z / of_run);
      logs[i] +=
          std::log(kLeastProbability + (1.0 - 2.0 * kLeastProbability) * (o.ran ? ran : 1.0 - ran));
    }
  }
  const double most = *std::ranges::max_element(logs);
  double sum = 0.0;
  for (const double log : logs) sum += std::exp(log - most);
  return most + std::log(sum / kQuadrature);
}

struct GridPoint {
  double location, log_scale, log_posterior;
  std::map<std::size_t, double> evidence;  // of it, by study
};

std::vector<GridPoint> posterior(const std::map<std::size_t, OutcomesOfStudy>& studies,
                                 const OutcomePriors& priors) {
  std::vector<GridPoint> grid;
  for (int i = -kGridSteps; i <= kGridSteps; ++i) {
    for (int j = -kGridSteps; j <= kGridSteps; ++j) {
      const double u = kGridReach * i / kGridSteps, v = kGridReach * j / kGridSteps;
      GridPoint point{u * priors.location, v * priors.log_scale, -0.5 * (u * u + v * v), {}};
      for (const auto& [group, study] : studies) {
        const double evidence =
            log_evidence(study, point.location, std::exp(point.log_scale), priors.study_share);
        point.log_posterior += evidence, point.evidence[group] = evidence;
      }
      grid.push_back(std::move(point));
    }
  }
  return grid;
}

struct Moments {
  double mean = 0.0, deviation = 0.0;
};

// Of a value, weighted by e^log_weight.
template <class LogWeight>
Moments moments(const std::vector<GridPoint>& grid, double GridPoint::*value,
                const LogWeight& log_weight) {
  double most = -std::numeric_limits<double>::infinity();
  for (const GridPoint& point : grid) most = std::max(most, log_weight(point));
  double weights = 0.0, sum = 0.0, squares = 0.0;
  for (const GridPoint& point : grid) {
    const double weight = std::exp(log_weight(point) - most);
    weights += weight, sum += weight * point.*value;
    squares += weight * point.*value * point.*value;
  }
  const double mean = sum / weights;
  return {mean, std::sqrt(squares / weights - mean * mean)};
}

}  // namespace

OutcomeFit outcome_fit(const std::vector<Outcome>& outcomes, const OutcomePriors& priors) {
  OutcomeFit fit;
  std::map<std::size_t, OutcomesOfStudy> studies;
  for (const Outcome& outcome : outcomes) studies[outcome.group].push_back(outcome);
  std::erase_if(studies, [](const auto& study) { return !reports_both(study.second); });
  for (const auto& [group, study] : studies) {
    for (const Outcome& outcome : study) ++(outcome.ran ? fit.ran : fit.out_of_memory);
  }
  fit.studies = static_cast<int>(studies.size());
  const std::vector<GridPoint> grid = posterior(studies, priors);
  const auto of_all = [](const GridPoint& point) { return point.log_posterior; };
  const Moments location = moments(grid, &GridPoint::location, of_all),
                log_scale = moments(grid, &GridPoint::log_scale, of_all);
  fit.location = location.mean, fit.location_error = location.deviation;
  fit.log_scale = log_scale.mean, fit.log_scale_error = log_scale.deviation;
  for (const auto& study : studies) {
    const std::size_t group = study.first;
    fit.without[group] = moments(grid, &GridPoint::log_scale, [group](const GridPoint& point) {
                           return point.log_posterior - point.evidence.at(group);
                         }).mean;
  }
  return fit;
}

}  // namespace llmsim::calibrate
