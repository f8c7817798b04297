#include "calibrate/mixed_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
namespace {

constexpr EffectClass given(double spread) {
  return {.spread = spread, .prior_weight = kGiven, .student = false};
}

// Posterior precision 1 / 2^2 + (1 + 4) / 1 = 5.25, mean (1 * 1 + 2 * 4.75) / 5.25 = 2.
TEST(MixedModel, TwoObservationsOfOneEffectByHand) {
  const MixedModel model{
      .classes = {given(2.0)},
      .effects = {0},
      .noise = given(1.0),
      .observations = {{.value = 1.0, .slopes = {{0, 1.0}}}, {.value = 4.75, .slopes = {{0, 2.0}}}},
  };
  const MixedFit result = fit(model);
  EXPECT_NEAR(result.means[0], 2.0, 1e-12);
  EXPECT_NEAR(result.covariance[0][0], 1.0 / 5.25, 1e-12);
  EXPECT_NEAR(result.deviation(0), std::sqrt(1.0 / 5.25), 1e-12);
}

// y_i = u + v_i + e_i, every spread 1.  Around u, y_i has variance 2: u has precision 1 + 2/2 and
// mean (3 + 1) / 2 / 2 = 1.  Given u, v_i is half of y_i - u with variance 1/2.
TEST(MixedModel, WhatTwoStudiesShareIsSeparatedFromTheirOwn) {
  const MixedModel model{
      .classes = {given(1.0), given(1.0)},
      .effects = {0, 1, 1},
      .noise = given(1.0),
      .observations = {{.value = 3.0, .slopes = {{0, 1.0}, {1, 1.0}}},
                       {.value = 1.0, .slopes = {{0, 1.0}, {2, 1.0}}}},
  };
  const MixedFit result = fit(model);
  EXPECT_NEAR(result.means[0], 1.0, 1e-12);
  EXPECT_NEAR(result.means[1], 1.0, 1e-12);
  EXPECT_NEAR(result.means[2], 0.0, 1e-12);
  EXPECT_NEAR(result.covariance[0][0], 0.5, 1e-12);
  EXPECT_NEAR(result.mean_of({{0, 1.0}, {1, 2.0}}), 3.0, 1e-12);
  // Of u + v_1 = u / 2 + y_1 / 2 + what is left of v_1: 1/4 * 1/2 + 1/2.
  EXPECT_NEAR(result.variance_of({{0, 1.0}, {1, 1.0}}), 0.625, 1e-12);
}

TEST(MixedModel, WithoutObservationsThePriorsStay) {
  const MixedModel model{.classes = {{.spread = 0.3, .student = true}, {.spread = 0.2}, given(0.1)},
                         .effects = {0, 0, 1, 2},
                         .observations = {}};
  const MixedFit result = fit(model);
  EXPECT_EQ(result.means, std::vector<double>(4, 0.0));
  for (std::size_t k = 0; k < 4; ++k) {
    const double prior = model.classes[model.effects[k]].spread;
    EXPECT_NEAR(result.deviation(k), prior, 1e-9) << k;
    EXPECT_NEAR(result.spreads[model.effects[k]], prior, 1e-9) << k;
  }
  EXPECT_NEAR(result.noise, model.noise.spread, 1e-9);
}

// A fixed point by hand: of one observation y of an effect u under t_4 with scale tau and normal noise
// sigma, the weight l = 5 / (4 + E u^2 / tau^2) belongs to the precision l / tau^2 + 1 / sigma^2.
TEST(MixedModel, WeightsOfAHeavyEffectAreThoseOfItsPosterior) {
  const double tau = 0.2, sigma = 0.1, y = 1.0;
  const MixedModel model{.classes = {{.spread = tau, .prior_weight = kGiven, .student = true}},
                         .effects = {0},
                         .noise = given(sigma),
                         .observations = {{.value = y, .slopes = {{0, 1.0}}}}};
  const MixedFit result = fit(model);
  double mean = 0.0, variance = 0.0, weight = 1.0;
  for (int i = 0; i < 300; ++i) {
    variance = 1.0 / (weight / (tau * tau) + 1.0 / (sigma * sigma));
    mean = variance * y / (sigma * sigma);
    weight = 5.0 / (4.0 + (mean * mean + variance) / (tau * tau));
  }
  EXPECT_NEAR(result.means[0], mean, 1e-3);
  EXPECT_NEAR(result.covariance[0][0], variance, 1e-4);
  EXPECT_GT(mean, 0.9);  // a normal one would be 0.8
}

// The same of noise: w = 5 / (4 + E e^2 / sigma^2) of each row, E e^2 its residual's square and the
// variance of u; and a spread that is estimated: sigma^2 = (n0 sigma0^2 + sum w E e^2) / (n0 + 3).
TEST(MixedModel, WeightsAndSpreadOfHeavyNoiseAreThoseOfItsResiduals) {
  const double values[] = {0.0, 0.1, 1.0}, sigma0 = 0.1;
  for (const double n0 : {kGiven, 2.0}) {
    MixedModel model{.classes = {given(10.0)},
                     .effects = {0},
                     .noise = {.spread = sigma0, .prior_weight = n0, .student = true},
                     .observations = {}};
    for (const double value : values)
      model.observations.push_back({.value = value, .slopes = {{0, 1.0}}});
    double weights[] = {1.0, 1.0, 1.0}, mean = 0.0, variance = 0.0, sigma = sigma0;
    for (int i = 0; i < 1000; ++i) {
      double precision = 1.0 / 100.0, sum = 0.0, squares = 0.0;
      for (int k = 0; k < 3; ++k) {
        precision += weights[k] / (sigma * sigma);
        sum += weights[k] * values[k] / (sigma * sigma);
      }
      variance = 1.0 / precision, mean = variance * sum;
      for (int k = 0; k < 3; ++k) {
        const double square = std::pow(values[k] - mean, 2) + variance;
        weights[k] = 5.0 / (4.0 + square / (sigma * sigma));
        squares += weights[k] * square;
      }
      if (n0 == 2.0) sigma = std::sqrt((2.0 * sigma0 * sigma0 + squares) / 5.0);
    }
    const MixedFit result = fit(model);
    EXPECT_NEAR(result.means[0], mean, 2e-3) << n0;
    EXPECT_NEAR(result.noise / sigma, 1.0, 2e-3) << n0;
    EXPECT_NEAR(result.deviation(0) / std::sqrt(variance), 1.0, 5e-3) << n0;
  }
}

// Against a matrix inverted by hand: effects u, v and w, of which rows see u + v, v + 2 w and u - w.
TEST(MixedModel, CovariancesAreThoseOfTheInverseOfThePrecision) {
  const MixedModel model{.classes = {given(1.0)},
                         .effects = {0, 0, 0},
                         .noise = given(1.0),
                         .observations = {{.value = 1.0, .slopes = {{0, 1.0}, {1, 1.0}}},
                                          {.value = 2.0, .slopes = {{1, 1.0}, {2, 2.0}}},
                                          {.value = 3.0, .slopes = {{0, 1.0}, {2, -1.0}}}}};
  // Precision 3 1 -1 / 1 3 2 / -1 2 6, determinant 30: 3 (18 - 4) - (6 + 2) - (2 + 3) = 29.
  const MixedFit result = fit(model);
  const double inverse[3][3] = {{14.0, -8.0, 5.0}, {-8.0, 17.0, -7.0}, {5.0, -7.0, 8.0}};
  const double sums[] = {1.0 + 3.0, 1.0 + 2.0, 4.0 - 3.0};
  for (std::size_t j = 0; j < 3; ++j) {
    double mean = 0.0;
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(result.covariance[j][k], inverse[j][k] / 29.0, 1e-12) << j << k;
      mean += inverse[j][k] * sums[k] / 29.0;
    }
    EXPECT_NEAR(result.means[j], mean, 1e-12) << j;
  }
  EXPECT_NEAR(result.variance_of({{0, 1.0}, {2, -2.0}}), (14.0 - 20.0 + 32.0) / 29.0, 1e-12);
}

TEST(GroupShifts, NameTheStrongestFirstAndNotWhatIsLittle) {
  EXPECT_EQ(group_shifts_text("of ", {}), "of 0 groups");
  EXPECT_EQ(group_shifts_text("of ", {{"a", 0.001}}), "of 1 groups");
  EXPECT_EQ(group_shifts_text("of ", {{"a", 0.006}, {"b", -0.021}, {"c", -0.0049}, {"d", 0.012}}),
            "of 4 groups: b -2.1 %, d +1.2 %, a +0.6 %");
  EXPECT_EQ(group_shifts_text("", {{"a", 0.005}}), "1 groups: a +0.5 %");
}

TEST(EffectPlaces, AreThoseOfTheirFirstName) {
  using Effect = LevelEffect<int>;
  EffectIndex<int> index({{1, "a"}, {2, "a"}});
  EXPECT_EQ(index.place(2, "a"), 1u);
  EXPECT_EQ(index.place(1, "b"), 2u);
  EXPECT_EQ(index.place(1, "a"), 0u);
  EXPECT_EQ(index.list().size(), 3u);
  const Slopes sum = index.sum({Effect{1, "b"}, Effect{3, "a"}, Effect{2, "a"}});
  EXPECT_EQ(sum, (Slopes{{2, 1.0}, {1, 1.0}}));
}

// Effects of one class, each observed a few times.
struct Planted {
  MixedModel model;
  std::vector<double> effects;
};

template <typename Draw>
Planted planted(const EffectClass& of, double noise, int effects, Draw draw) {
  std::mt19937 generator(11);
  std::normal_distribution<double> normal;
  Planted result;
  result.model.classes = {of};
  result.model.noise = {.spread = 0.05, .prior_weight = 2.0, .student = false};
  for (int k = 0; k < effects; ++k) {
    result.effects.push_back(draw(generator));
    result.model.effects.push_back(0);
    for (int i = 0; i < 6; ++i)
      result.model.observations.push_back(
          {.value = result.effects.back() + noise * normal(generator),
           .slopes = {{result.model.effects.size() - 1, 1.0}}});
  }
  return result;
}

// 400 effects tell their spread to 1 / sqrt(800) of it, 2000 residuals the noise to 1 / sqrt(4000).
TEST(MixedModel, PlantedSpreadsAndEffectsAreRecovered) {
  std::normal_distribution<double> normal(0.0, 0.3);
  const Planted truth = planted({.spread = 0.1, .prior_weight = 4.0, .student = false}, 0.12, 400,
                                [&](auto& generator) { return normal(generator); });
  const MixedFit result = fit(truth.model);
  EXPECT_NEAR(result.spreads[0], 0.3, 3.0 * 0.3 / std::sqrt(800.0));
  EXPECT_NEAR(result.noise, 0.12, 3.0 * 0.12 / std::sqrt(4000.0));
  double squares = 0.0;  // in deviations: chi-square of 400, of which sqrt(2 / 400) is the scatter
  for (std::size_t k = 0; k < 400; ++k)
    squares += std::pow((result.means[k] - truth.effects[k]) / result.deviation(k), 2);
  EXPECT_NEAR(squares / 400.0, 1.0, 3.0 * std::sqrt(2.0 / 400.0));
}

// Scale of t_4: Fisher information per draw (nu / (nu + 3)) 2 = 8 / 7, so 400 tell it to 1 / sqrt(
// 457) of it.
TEST(MixedModel, APlantedSpreadOfStudentsTIsRecovered) {
  std::student_t_distribution<double> student(sim::kStudentFreedom);
  const Planted truth = planted({.spread = 0.1, .prior_weight = 4.0, .student = true}, 0.05, 400,
                                [&](auto& generator) { return 0.2 * student(generator); });
  EXPECT_NEAR(fit(truth.model).spreads[0], 0.2, 3.0 * 0.2 / std::sqrt(457.0));
}

// A spread of which nothing is said is what the data say and the prior, weighted by their counts:
// four effects of 0.4 known exactly beside n0 = 4 of 0.2 give sqrt((4 * 0.04 + 4 * 0.16) / 8).
TEST(MixedModel, ThePriorOfASpreadCountsAsSoManyEffects) {
  MixedModel model{.classes = {{.spread = 0.2, .prior_weight = 4.0, .student = false}},
                   .effects = {0, 0, 0, 0},
                   .noise = given(1e-4),
                   .observations = {}};
  for (std::size_t k = 0; k < 4; ++k)
    model.observations.push_back({.value = k % 2 ? 0.4 : -0.4, .slopes = {{k, 1.0}}});
  EXPECT_NEAR(fit(model).spreads[0], std::sqrt(0.1), 1e-4);
}

TEST(MixedModel, AGivenSpreadIsKept) {
  MixedModel model{
      .classes = {given(0.1)}, .effects = {0, 0}, .noise = given(0.02), .observations = {}};
  for (std::size_t k = 0; k < 2; ++k)
    model.observations.push_back({.value = 1.0, .slopes = {{k, 1.0}}});
  const MixedFit result = fit(model);
  EXPECT_EQ(result.spreads[0], 0.1);
  EXPECT_EQ(result.noise, 0.02);
}

// One shared effect, effect 0, and one of each study; `values` are the studies' rows.
MixedModel studies(const std::vector<std::vector<double>>& values, const EffectClass& study) {
  MixedModel model{
      .classes = {given(0.3), study}, .effects = {0}, .noise = given(0.05), .observations = {}};
  for (const std::vector<double>& rows : values) {
    const std::size_t own = model.effects.size();
    model.effects.push_back(1);
    for (const double value : rows)
      model.observations.push_back({.value = value, .slopes = {{0, 1.0}, {own, 1.0}}});
  }
  return model;
}

// Rows of a study share its effect: their mean has variance tau^2 + sigma^2 / n around what is
// shared, however large n.
TEST(MixedModel, ManyRowsOfOneStudyCountOnce) {
  const auto shared = [](std::size_t rows) {
    const std::vector<std::vector<double>> values = {std::vector<double>(rows, 0.2), {-0.1}};
    return fit(studies(values, given(0.1))).means[0];
  };
  const auto by_hand = [](double rows) {
    const double many = 1.0 / (0.01 + 0.0025 / rows), one = 1.0 / (0.01 + 0.0025);
    return (0.2 * many - 0.1 * one) / (1.0 / 0.09 + many + one);
  };
  EXPECT_NEAR(shared(1), by_hand(1.0), 1e-9);
  EXPECT_NEAR(shared(50), by_hand(50.0), 1e-9);
  EXPECT_NEAR(shared(50), shared(500), 1e-3);
}

TEST(MixedModel, OneBrokenStudyHardlyMovesTheRest) {
  const std::vector<std::vector<double>> sound = {{0.12, 0.10}, {0.05, 0.07}, {0.13, 0.15},
                                                  {0.08, 0.10}, {0.11, 0.09}, {0.10, 0.10}};
  std::vector<std::vector<double>> broken = sound;
  broken.push_back({3.0, 3.0});
  const auto moved = [&](const EffectClass& study) {
    return fit(studies(broken, study)).means[0] - fit(studies(sound, study)).means[0];
  };
  EXPECT_LT(std::abs(moved({.spread = 0.1, .prior_weight = kGiven, .student = true})), 0.03);
  EXPECT_LT(std::abs(moved({.spread = 0.1, .prior_weight = 4.0, .student = true})), 0.03);
  EXPECT_GT(moved(given(0.1)), 0.3);
}

// Twenty rows of one study say 0.1; one says 2, and counts little.
TEST(MixedModel, OneBrokenRowHardlyMovesItsStudy) {
  std::vector<double> rows(20, 0.1);
  MixedModel model = studies({rows}, given(0.3));
  model.noise.student = true;
  const double before = fit(model).mean_of({{0, 1.0}, {1, 1.0}});
  model.observations.push_back({.value = 2.0, .slopes = {{0, 1.0}, {1, 1.0}}});
  EXPECT_NEAR(fit(model).mean_of({{0, 1.0}, {1, 1.0}}), before, 0.01);
}

TEST(MixedModel, SettledSpreadsAreKeptWhileEffectsFollowTheData) {
  const EffectClass study{.spread = 0.1, .prior_weight = 2.0, .student = true};
  const MixedModel all = studies({{0.2, 0.25}, {-0.3, -0.2}, {0.1}}, study);
  MixedModel fewer = all;
  fewer.observations.pop_back();
  const MixedFit settled = fit(all), without = fit(fewer, &settled);
  EXPECT_EQ(without.spreads, settled.spreads);
  EXPECT_EQ(without.noise, settled.noise);
  EXPECT_NE(without.means[0], settled.means[0]);
  // The study that is left out has its prior.
  EXPECT_NEAR(without.means[3], 0.0, 1e-12);
  EXPECT_NEAR(without.deviation(3), settled.spreads[1], 1e-6);
}

}  // namespace
}  // namespace llmsim::calibrate
