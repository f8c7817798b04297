#include "calibrate/outcome_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

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
};

std::vector<GridPoint> posterior(const std::map<std::size_t, OutcomesOfStudy>& studies,
                                 const OutcomePriors& priors) {
  std::vector<GridPoint> grid;
  for (int i = -kGridSteps; i <= kGridSteps; ++i) {
    for (int j = -kGridSteps; j <= kGridSteps; ++j) {
      const double u = kGridReach * i / kGridSteps, v = kGridReach * j / kGridSteps;
      GridPoint point{u * priors.location, v * priors.log_scale, -0.5 * (u * u + v * v)};
      for (const auto& [group, study] : studies)
        point.log_posterior +=
            log_evidence(study, point.location, std::exp(point.log_scale), priors.study_share);
      grid.push_back(point);
    }
  }
  return grid;
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
  const double most = std::ranges::max_element(grid, {}, &GridPoint::log_posterior)->log_posterior;
  double sum = 0.0, locations = 0.0, location_squares = 0.0, scales = 0.0, scale_squares = 0.0;
  for (const GridPoint& point : grid) {
    const double weight = std::exp(point.log_posterior - most);
    sum += weight;
    locations += weight * point.location;
    location_squares += weight * point.location * point.location;
    scales += weight * point.log_scale;
    scale_squares += weight * point.log_scale * point.log_scale;
  }
  fit.location = locations / sum;
  fit.log_scale = scales / sum;
  fit.location_error = std::sqrt(location_squares / sum - fit.location * fit.location);
  fit.log_scale_error = std::sqrt(scale_squares / sum - fit.log_scale * fit.log_scale);
  return fit;
}

}  // namespace llmsim::calibrate
