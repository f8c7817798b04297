#include "sim/job/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace llmsim::sim {
namespace {

constexpr double kFive = 1.6448536;  // 5 % of a normal variable lie above

TEST(Uncertain, HasEndsThatHoldNineInTen) {
  const Uncertain<double> x{10.0, 0.5};
  EXPECT_DOUBLE_EQ(x.low(), 10.0 * std::exp(-0.5 * kFive));
  EXPECT_DOUBLE_EQ(x.high(), 10.0 * std::exp(0.5 * kFive));
  EXPECT_EQ((Uncertain<double>{10.0}).low(), 10.0);
}

TEST(Combined, AddsLogarithmsInSquaresOnEachSide) {
  const OutputEnds ends[] = {{10.0 * std::exp(-0.3), 10.0 * std::exp(0.1)},
                             {10.0 * std::exp(0.2), 10.0 * std::exp(-0.4)}};
  const Estimate<double> estimate = combined(10.0, ends);
  EXPECT_NEAR(estimate.low, 10.0 * std::exp(-0.5), 1e-12);
  EXPECT_NEAR(estimate.high, 10.0 * std::exp(std::sqrt(0.05)), 1e-12);
  EXPECT_EQ(combined(0.0, ends).high, 0.0);
}

// The product of two log-normal values is one, with the sum of the variances.
TEST(Combined, IsExactForProducts) {
  const Uncertain<double> a{3.0, 0.3}, b{5.0, 0.4};
  const OutputEnds ends[] = {{a.low() * b.median, a.high() * b.median},
                             {a.median * b.low(), a.median * b.high()}};
  EXPECT_NEAR(combined(15.0, ends).high, (Uncertain<double>{15.0, 0.5}).high(), 1e-12);
}

TEST(Pooled, ByHand) {
  // Logarithms -1, 0, 1: mean 0, deviation 1, of the next one sqrt(4 / 3).
  const std::vector<double> values{std::exp(-1.0), 1.0, std::exp(1.0)};
  EXPECT_NEAR(pooled(values).median, 1.0, 1e-12);
  EXPECT_NEAR(pooled(values).log_deviation, std::sqrt(4.0 / 3.0), 1e-12);
}

TEST(Between, HasTheTwoValuesAsItsEnds) {
  const Uncertain<double> x = between(9.0, 4.0);
  EXPECT_DOUBLE_EQ(x.median, 6.0);
  EXPECT_NEAR(x.low(), 4.0, 1e-9);
  EXPECT_NEAR(x.high(), 9.0, 1e-9);
  EXPECT_EQ(between(4.0, 4.0).log_deviation, 0.0);
}

}  // namespace
}  // namespace llmsim::sim
