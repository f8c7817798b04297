#include "calibrate/statistics.h"

#include <cmath>

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

}  // namespace
}  // namespace llmsim::calibrate
