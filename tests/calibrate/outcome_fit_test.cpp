#include "calibrate/outcome_fit.h"

#include <cmath>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

namespace llmsim::calibrate {
namespace {

// Studies of runs that need between half and twice their devices' memory by the prediction, and
// e^(location + scale T) times as much in fact: half of the variance is a study's.
std::vector<Outcome> planted(double location, double scale, int studies, int runs, unsigned seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<double> student(4.0);
  std::uniform_real_distribution<double> room(-0.7, 0.7);
  const double half = scale * std::sqrt(0.5);
  std::vector<Outcome> outcomes;
  for (int group = 0; group < studies; ++group) {
    const double of_study = half * student(random);
    for (int run = 0; run < runs; ++run) {
      const double x = room(random);
      outcomes.push_back({.group = static_cast<std::size_t>(group),
                          .room = x,
                          .scale = 0.1,
                          .ran = x > location + of_study + half * student(random)});
    }
  }
  return outcomes;
}

TEST(OutcomeFit, RecoversAPlantedLocationAndScale) {
  const OutcomeFit fit =
      outcome_fit(planted(0.12, 0.2, 60, 12, 3), {.location = 0.2, .study_share = 0.5});
  EXPECT_NEAR(fit.location, 0.12, 2.0 * fit.location_error);
  EXPECT_LT(fit.location_error, 0.04);
  EXPECT_NEAR(fit.log_scale, std::log(2.0), 2.0 * fit.log_scale_error);
  EXPECT_LT(fit.log_scale_error, 0.25);
  EXPECT_GT(fit.studies, 50);  // a study far out has one outcome only
  EXPECT_EQ(fit.ran + fit.out_of_memory, 12 * fit.studies);
}

TEST(OutcomeFit, AnUnbiasedPredictionHasNoLocation) {
  const OutcomeFit fit = outcome_fit(planted(0.0, 0.1, 60, 12, 5), {.study_share = 0.5});
  EXPECT_LT(std::abs(fit.location), 2.0 * fit.location_error);
  EXPECT_LT(std::abs(fit.log_scale), 2.0 * fit.log_scale_error);
}

TEST(OutcomeFit, WithoutOutcomesThePriorsStay) {
  const OutcomeFit fit = outcome_fit({});
  EXPECT_NEAR(fit.location, 0.0, 1e-12);
  EXPECT_NEAR(fit.log_scale, 0.0, 1e-12);
  // A normal distribution of 0.2, cut off at three deviations: 0.986 of it.
  EXPECT_NEAR(fit.location_error, 0.2, 0.004);
  EXPECT_NEAR(fit.log_scale_error, 0.5, 0.01);
}

// Of a study with a run and a miss, the sums worked out again: the study's effect at ten thousand
// equally likely values, location and ln k on a grid of their own.
TEST(OutcomeFit, IsThePosteriorMeanOfItsModel) {
  const double share = 0.6, scale = 0.15, ran = 0.1, missed = 0.25;
  std::vector<double> effects;
  for (int i = 0; i < 2000; ++i) effects.push_back(sim::student_quantile((i + 0.5) / 2000.0));
  double sum = 0.0, locations = 0.0, location_squares = 0.0, scales = 0.0, scale_squares = 0.0;
  for (double u = -3.0; u <= 3.0; u += 0.25) {
    for (double v = -3.0; v <= 3.0; v += 0.25) {
      const double location = 0.3 * u, k = std::exp(0.4 * v);
      double evidence = 0.0;
      for (const double effect : effects) {
        const auto fits = [&](double room) {
          return sim::student_probability(
              ((room - location) / (k * scale) - std::sqrt(share) * effect) /
              std::sqrt(1.0 - share));
        };
        // No outcome is impossible.
        const auto likely = [](double probability) { return 0.001 + 0.998 * probability; };
        evidence += likely(fits(ran)) * likely(1.0 - fits(missed)) / 2000.0;
      }
      const double weight = evidence * std::exp(-0.5 * (u * u + v * v));
      sum += weight;
      locations += weight * location, location_squares += weight * location * location;
      scales += weight * 0.4 * v, scale_squares += weight * 0.16 * v * v;
    }
  }
  const OutcomeFit fit = outcome_fit({{.group = 3, .room = ran, .scale = scale, .ran = true},
                                      {.group = 3, .room = missed, .scale = scale, .ran = false}},
                                     {.location = 0.3, .log_scale = 0.4, .study_share = share});
  EXPECT_NEAR(fit.location, locations / sum, 2e-3);
  EXPECT_NEAR(fit.log_scale, scales / sum, 2e-3);
  EXPECT_NEAR(fit.location_error, std::sqrt(location_squares / sum - std::pow(locations / sum, 2)),
              2e-3);
  EXPECT_NEAR(fit.log_scale_error, std::sqrt(scale_squares / sum - std::pow(scales / sum, 2)),
              2e-3);
  EXPECT_EQ(std::tuple(fit.studies, fit.ran, fit.out_of_memory), std::tuple(1, 1, 1));
}

// Most tables list what ran: such a study says how far from the limit its people stayed.
TEST(OutcomeFit, AStudyThatReportsOneOutcomeOnlyIsLeftOut) {
  std::vector<Outcome> outcomes;
  for (std::size_t group = 0; group < 20; ++group)
    outcomes.push_back({.group = group, .room = -0.3, .scale = 0.1, .ran = true});
  const OutcomeFit fit = outcome_fit(outcomes), priors = outcome_fit({});
  EXPECT_EQ(fit.studies, 0);
  EXPECT_EQ(fit.location, priors.location);
  EXPECT_EQ(fit.location_error, priors.location_error);
}

// Runs that nearly fill their devices by the prediction and did not fit: they need more.  Each
// study has one that ran far from the limit.
TEST(OutcomeFit, AStudyCountsLessThanItsRuns) {
  const auto missed = [](std::size_t studies, std::size_t runs) {
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < studies; ++i)
      outcomes.push_back({.group = i, .room = 2.0, .scale = 0.1, .ran = true});
    for (std::size_t i = 0; i < runs; ++i)
      outcomes.push_back({.group = i % studies, .room = 0.05, .scale = 0.1, .ran = false});
    return outcome_fit(outcomes).location;
  };
  EXPECT_GT(missed(1, 1), 0.0);
  EXPECT_GT(missed(12, 12), 1.2 * missed(1, 12));
  EXPECT_NEAR(missed(1, 120), missed(1, 12), 0.4 * missed(1, 12));  // ten times the runs
}

}  // namespace
}  // namespace llmsim::calibrate
