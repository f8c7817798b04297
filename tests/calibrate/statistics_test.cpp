#include "calibrate/statistics.h"

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include <gtest/gtest.h>

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

TEST(SharedDegrees, OfEqualGroupsAreMany) {
  EXPECT_DOUBLE_EQ(shared_degrees({{0.01, 5.0}, {0.01, 5.0}, {0.01, 5.0}}), 100.0);
}

}  // namespace
}  // namespace llmsim::calibrate
