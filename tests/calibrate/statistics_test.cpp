#include "calibrate/statistics.h"

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {

namespace {

TEST(RankCorrelation, OfOneOrderIsOneAndOfTheOppositeMinusOne) {
  EXPECT_NEAR(*rank_correlation({1.0, 5.0, 9.0}, {0.1, 0.2, 77.0}), 1.0, 1e-12);
  EXPECT_NEAR(*rank_correlation({1.0, 5.0, 9.0}, {3.0, 2.0, 1.0}), -1.0, 1e-12);
}

// Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4, less their mean of 2.5: -1.5, 0, 0, 1.5 and -1.5, 0.5, -0.5,
// 1.5.  Sums of squares 4.5 and 5, of products 4.5.
TEST(RankCorrelation, GivesEqualValuesTheMeanOfTheirRanks) {
  EXPECT_NEAR(*rank_correlation({1.0, 2.0, 2.0, 7.0}, {10.0, 30.0, 20.0, 40.0}),
              4.5 / std::sqrt(4.5 * 5.0), 1e-12);
}

TEST(Statistics, OfFewValuesByHand) {
  EXPECT_EQ(mean({1.0, 2.0, 6.0}), 3.0);
  EXPECT_EQ(median({6.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median({6.0, 1.0, 2.0, 4.0}), 3.0);
  EXPECT_NEAR(scatter({1.0, 2.0, 6.0}), std::sqrt((4.0 + 1.0 + 9.0) / 2.0), 1e-12);
  EXPECT_NEAR(scatter({1.0, 3.0}), std::sqrt(2.0), 1e-12);
  EXPECT_EQ(scatter({5.0}), 0.0);
  EXPECT_EQ(scatter({}), 0.0);
  EXPECT_FALSE(mean_if_any({}));
  EXPECT_FALSE(median_if_any({}));
  EXPECT_EQ(mean_if_any({1.0, 2.0}), 1.5);
  EXPECT_EQ(median_if_any({1.0, 2.0, 9.0}), 2.0);
  EXPECT_EQ(three_digits(0.83149), "0.831");
  EXPECT_EQ(three_digits(1234.0), "1.23e+03");
  EXPECT_NEAR(*log_ratio(std::optional(2.0), std::optional(1.0)), -std::log(2.0), 1e-12);
  EXPECT_FALSE(log_ratio(std::optional<double>(), std::optional(1.0)));
  EXPECT_FALSE(log_ratio(std::optional(1.0), std::optional<double>()));
}

TEST(RankCorrelation, IsNoneWithoutAnOrder) {
  EXPECT_FALSE(rank_correlation({}, {}));
  EXPECT_FALSE(rank_correlation({1.0, 1.0, 1.0}, {1.0, 2.0, 3.0}));
  EXPECT_FALSE(rank_correlation({1.0, 2.0, 3.0}, {4.0, 4.0, 4.0}));
}

// Variances of groups drawn from a scaled inverse chi-square distribution with 4 degrees of
// freedom, each seen by 10 values.
// A tenth of the weight lies at 1, six tenths at or below 2.
TEST(WeightedQuantile, IsWhereThatShareOfTheWeightIsReached) {
  const std::vector<std::pair<double, double>> weighted{{3.0, 4.0}, {1.0, 1.0}, {2.0, 5.0}};
  EXPECT_EQ(weighted_quantile(weighted, 0.05), 1.0);
  EXPECT_EQ(weighted_quantile(weighted, 0.1), 1.0);
  EXPECT_EQ(weighted_quantile(weighted, 0.6), 2.0);
  EXPECT_EQ(weighted_quantile(weighted, 0.61), 3.0);
  EXPECT_EQ(weighted_quantile(weighted, 1.0), 3.0);
}

TEST(SharedDegrees, AreThoseThatGroupsWereDrawnWith) {
  std::mt19937 random(3);
  std::chi_squared_distribution<double> prior(4.0), sample(10.0);
  std::vector<GroupVariance> groups;
  for (int i = 0; i < 20000; ++i) {
    const double own = 0.04 * 4.0 / prior(random);
    groups.push_back({.variance = own * sample(random) / 10.0, .degrees = 10.0});
  }
  EXPECT_NEAR(shared_degrees(groups), 4.0, 0.2);
}

// psi'(1/2) = pi^2 / 2: two groups of whose logarithms half the squared difference is that much
// more than sampling gives.
TEST(SharedDegrees, OfTwoGroupsFollowFromTheirRatio) {
  const double sampling = std::numbers::pi * std::numbers::pi / 2.0,
               ratio = std::exp(std::sqrt(2.0 * (2.0 * sampling)));
  EXPECT_NEAR(shared_degrees({{1.0, 1.0}, {ratio, 1.0}}), 1.0, 1e-4);
}

// A variance of 1 of 2 degrees is expected to be seen as e^-0.58, one of 50 as e^-0.02: no more apart
// than sampling puts them.
TEST(SharedDegrees, KnowThatFewDegreesSeemLess) {
  EXPECT_EQ(shared_degrees({{1.0, 2.0}, {1.0, 50.0}}), 100.0);
}

// Variances that are 10^20 apart: as few degrees as are told.
TEST(SharedDegrees, OfGroupsWithoutAnythingInCommonAreFew) {
  EXPECT_DOUBLE_EQ(shared_degrees({{1e-40, 1.0}, {1.0, 1.0}, {1e40, 1.0}}), 0.1);
}

TEST(SharedDegrees, OfEqualGroupsAreMany) {
  EXPECT_DOUBLE_EQ(shared_degrees({{0.01, 5.0}, {0.01, 5.0}, {0.01, 5.0}}), 100.0);
}

}  // namespace

namespace {

using sim::student_quantile;

TEST(TwoPieceStudent, EqualScalesAreStudentsOwn) {
  const TwoPieceStudent student{.below = 3.0, .above = 3.0};
  EXPECT_NEAR(student.quantile(0.95), 3.0 * 2.1318, 1e-3);
  EXPECT_NEAR(student.quantile(0.05), -3.0 * 2.1318, 1e-3);
}

// A side twice as wide has two thirds of the mass: 5 % of all are 7.5 % of those above.
TEST(TwoPieceStudent, TheWiderSideHasMoreOfTheMass) {
  const TwoPieceStudent student{.below = 1.0, .above = 2.0};
  EXPECT_NEAR(student.quantile(1.0 / 3.0), 0.0, 1e-6);
  EXPECT_NEAR(student.quantile(0.95), 2.0 * student_quantile(1.0 - 0.0375), 1e-9);
}

std::vector<std::pair<double, double>> planted(double below, double above, int count) {
  std::mt19937 random(7);
  std::student_t_distribution<double> student(4.0);
  std::uniform_real_distribution<double> side(0.0, 1.0);
  std::vector<std::pair<double, double>> values;
  for (int i = 0; i < count; ++i) {
    const double size = std::abs(student(random));
    values.emplace_back(side(random) < below / (below + above) ? -below * size : above * size, 1.0);
  }
  return values;
}

TEST(TwoPieceStudent, PlantedScalesAreFound) {
  const TwoPieceStudent found = fit_two_piece(planted(0.5, 1.5, 4000));
  EXPECT_NEAR(found.below, 0.5, 0.04);
  EXPECT_NEAR(found.above, 1.5, 0.08);
}

TEST(TwoPieceStudent, AValueFarOutHardlyWidensItsSide) {
  auto values = planted(1.0, 1.0, 400);
  const double before = fit_two_piece(values).above;
  for (int i = 0; i < 4; ++i) values.emplace_back(1000.0, 1.0);
  EXPECT_LT(fit_two_piece(values).above, 1.2 * before);
}

// A weight of two is the same value twice; scales grow with the values, each side with its own, up to
// 20 and down to 1 / 20.
TEST(TwoPieceStudent, WeightsCountAndScalesFollow) {
  std::vector<std::pair<double, double>> once = planted(0.5, 1.5, 200), twice, scaled, mirrored;
  for (std::size_t i = 0; i < once.size(); ++i) {
    const bool heavy = i % 3 == 0;
    if (heavy) once[i].second = 2.0;
    for (int k = 0; k < (heavy ? 2 : 1); ++k) twice.emplace_back(once[i].first, 1.0);
    scaled.emplace_back(1.7 * once[i].first, once[i].second);
    mirrored.emplace_back(-once[i].first, once[i].second);
  }
  const TwoPieceStudent found = fit_two_piece(once);
  EXPECT_NEAR(fit_two_piece(twice).below / found.below, 1.0, 1e-3);
  EXPECT_NEAR(fit_two_piece(twice).above / found.above, 1.0, 1e-3);
  EXPECT_NEAR(fit_two_piece(scaled).below / found.below, 1.7, 2e-3);
  EXPECT_NEAR(fit_two_piece(scaled).above / found.above, 1.7, 2e-3);
  EXPECT_NEAR(fit_two_piece(mirrored).above / found.below, 1.0, 1e-3);
  EXPECT_NEAR(fit_two_piece({{1000.0, 1.0}, {-1000.0, 1.0}}).above, std::exp(3.0), 0.05);
  EXPECT_NEAR(fit_two_piece({{1e-4, 1.0}, {-1e-4, 1.0}}).below, std::exp(-3.0), 1e-3);
}

// Of two values +-z the likelihood is greatest where both scales are a: 1 / a = 5 x^2 / a / (4 + x^2),
// x = z / a: x = 1.
TEST(TwoPieceStudent, OfTwoValuesByHand) {
  const TwoPieceStudent found = fit_two_piece({{2.0, 1.0}, {-2.0, 1.0}});
  EXPECT_NEAR(found.below, 2.0, 2e-3);
  EXPECT_NEAR(found.above, 2.0, 2e-3);
}

TEST(TwoPieceStudent, NothingTellsNothing) {
  EXPECT_EQ(fit_two_piece({}).below, 1.0);
  EXPECT_EQ(fit_two_piece({}).above, 1.0);
}

}  // namespace

}  // namespace llmsim::calibrate
