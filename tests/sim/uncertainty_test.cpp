#include "sim/base/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <boost/math/distributions/students_t.hpp>

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
  const OutputInterval intervals[] = {{10.0 * std::exp(-0.3), 10.0 * std::exp(0.1)},
                                      {10.0 * std::exp(0.2), 10.0 * std::exp(-0.4)}};
  const Estimate<double> estimate = combined(10.0, intervals);
  EXPECT_NEAR(estimate.low, 10.0 * std::exp(-0.5), 1e-12);
  EXPECT_NEAR(estimate.high, 10.0 * std::exp(std::sqrt(0.05)), 1e-12);
  EXPECT_EQ(combined(0.0, intervals).high, 0.0);
}

// The product of two log-normal values is one, with the sum of the variances.
TEST(Combined, IsExactForProducts) {
  const Uncertain<double> a{3.0, 0.3}, b{5.0, 0.4};
  const OutputInterval intervals[] = {{a.low() * b.median, a.high() * b.median},
                                      {a.median * b.low(), a.median * b.high()}};
  EXPECT_NEAR(combined(15.0, intervals).high, (Uncertain<double>{15.0, 0.5}).high(), 1e-12);
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

// Tables of t with four degrees of freedom: 2.1318 at 95 %, 2.7764 at 97.5 %, 0.7407 at 75 %.
TEST(Student, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_quantile(0.95), 2.1318, 1e-4);
  EXPECT_NEAR(student_quantile(0.975), 2.7764, 1e-4);
  EXPECT_NEAR(student_quantile(0.75), 0.7407, 1e-4);
  EXPECT_NEAR(student_quantile(0.05), -2.1318, 1e-4);
  EXPECT_NEAR(student_quantile(0.5), 0.0, 1e-7);
}

TEST(Student, ProbabilitiesUndoQuantiles) {
  for (const double p : {1e-6, 0.01, 0.3, 0.5, 0.9, 0.9999})
    EXPECT_NEAR(student_probability(student_quantile(p)), p, 1e-9);
}

// By hand: t = 2 has s = 1 / sqrt 2, and 1/2 + 3/4 (s - s^3 / 3) = 1/2 + 5/8 s = 0.94194.
TEST(Student, AProbabilityWorkedOutByHand) {
  EXPECT_NEAR(student_probability(2.0), 0.94194, 1e-5);
  EXPECT_NEAR(student_probability(-2.0), 1.0 - 0.94194, 1e-5);
  EXPECT_EQ(student_probability(0.0), 0.5);
}

// The closed forms hold for four degrees of freedom alone, Boost.Math's distribution for any number.
TEST(Student, ProbabilitiesAreThoseOfBoost) {
  const boost::math::students_t boost_student(kStudentFreedom);
  for (double t = -60.0; t <= 60.0; t += 0.125)
    EXPECT_NEAR(student_probability(t), cdf(boost_student, t), 1e-12) << t;
}

TEST(Student, QuantilesAreThoseOfBoost) {
  const boost::math::students_t boost_student(kStudentFreedom);
  std::vector<double> probabilities{1e-12, 1e-9, 1e-6, 1.0 - 1e-6, 1.0 - 1e-9};
  for (int i = 1; i < 1000; ++i) probabilities.push_back(i / 1000.0);
  for (const double p : probabilities) {
    const double expected = quantile(boost_student, p);
    EXPECT_NEAR(student_quantile(p), expected, 1e-12 * std::max(1.0, std::abs(expected))) << p;
  }
}

TEST(Student, TheEndsAreCertain) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(student_probability(infinity), 1.0);
  EXPECT_EQ(student_probability(-infinity), 0.0);
  EXPECT_NEAR(student_probability(1e200), 1.0, 1e-12);
}

// Exact: 1 / sqrt(pi) of two; tables of order statistics.
TEST(ExpectedLargest, IsThatOfNormalValuesWithinFourPercent) {
  EXPECT_NEAR(expected_largest(1.0), 0.0, 1e-12);
  EXPECT_NEAR(expected_largest(2.0) / 0.5642, 1.0, 0.045);
  EXPECT_NEAR(expected_largest(8.0) / 1.4236, 1.0, 0.01);
  EXPECT_NEAR(expected_largest(64.0) / 2.3437, 1.0, 0.01);
  EXPECT_NEAR(expected_largest(1000.0) / 3.2414, 1.0, 0.04);
}

}  // namespace
}  // namespace llmsim::sim
