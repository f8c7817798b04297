#include "calibrate/layout_basis.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmsim::calibrate {
namespace {

// 0.2^2 exp(-doublings^2 / 2) of the micro-batch.
sim::LayoutErrors sample_errors() { return {.error = 0.2}; }

sim::LayoutPoint point_at(double doublings) {
  sim::LayoutPoint point;
  point.log2[static_cast<std::size_t>(sim::LayoutAxis::MicroBatch)] = doublings;
  return point;
}

// y(A) = 0.2, y(B) = (0.2 c, 0.2 sqrt(1 - c^2)) with c = e^-0.5.
TEST(LayoutBasis, TwoLayoutsAreCholeskysFactor) {
  const LayoutBasis basis({point_at(0.0), point_at(1.0)}, sample_errors());
  ASSERT_EQ(basis.pivots().size(), 2U);
  const double c = std::exp(-0.5);
  const std::vector<double> one = basis.slopes(point_at(0.0)), other = basis.slopes(point_at(1.0));
  EXPECT_NEAR(one[0], 0.2, 1e-12);
  EXPECT_NEAR(one[1], 0.0, 1e-12);
  EXPECT_NEAR(other[0], 0.2 * c, 1e-12);
  EXPECT_NEAR(other[1], 0.2 * std::sqrt(1.0 - c * c), 1e-12);
}

TEST(LayoutBasis, SlopesAndRestAddToTheCovariance) {
  const LayoutBasis basis({point_at(0.0), point_at(1.0), point_at(3.0)}, sample_errors());
  for (const double a : {0.0, 0.7, 2.0}) {
    for (const double b : {1.0, 5.0}) {
      const std::vector<double> one = basis.slopes(point_at(a)), other = basis.slopes(point_at(b));
      double sum = basis.rest(point_at(a), point_at(b));
      for (std::size_t j = 0; j < one.size(); ++j) sum += one[j] * other[j];
      EXPECT_NEAR(sum, sample_errors().covariance(point_at(a), point_at(b)), 1e-12);
    }
  }
}

// sum_j v_j y_j(x) = sum_i weights_i k(x, x_i).
TEST(LayoutBasis, WeightsGiveTheSameFunction) {
  const LayoutBasis basis({point_at(0.0), point_at(1.0), point_at(3.0)}, sample_errors());
  const std::vector<double> v{0.5, -1.0, 2.0}, weights = basis.weights(v),
                                               slopes = basis.slopes(point_at(1.7));
  double by_slopes = 0.0, by_weights = 0.0;
  for (std::size_t j = 0; j < 3; ++j) {
    by_slopes += v[j] * slopes[j];
    by_weights += weights[j] * sample_errors().covariance(point_at(1.7), basis.pivots()[j]);
  }
  EXPECT_NEAR(by_slopes, by_weights, 1e-12);
}

TEST(LayoutBasis, EqualLayoutsAreOne) {
  EXPECT_EQ(
      LayoutBasis({point_at(0.0), point_at(0.0), point_at(1e-4)}, sample_errors()).pivots().size(),
      1U);
  EXPECT_TRUE(LayoutBasis({point_at(0.0)}, {}).pivots().empty());
}

}  // namespace
}  // namespace llmsim::calibrate
