#include "calibrate/least_squares.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

// NIST StRD, Misra1a (lower difficulty): y = b1 (1 - exp(-b2 x)).
constexpr std::array<double, 14> kMisraY{10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02,
                                         44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78};
constexpr std::array<double, 14> kMisraX{77.6,  114.9, 141.1, 190.8, 239.9, 289.0, 332.8,
                                         378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0};

void misra(std::span<const double> b, std::span<double> residuals) {
  for (std::size_t i = 0; i < kMisraX.size(); ++i)
    residuals[i] = b[0] * (1.0 - std::exp(-b[1] * kMisraX[i])) - kMisraY[i];
}

TEST(LeastSquares, ReproducesMisra1aOfNist) {
  // Certified: b1 = 2.3894212918E+02 (2.7070075241E+00), b2 = 5.5015643181E-04 (7.2668688436E-06),
  // from either start.
  for (const auto& [b1, b2] : {std::pair(500.0, 1e-4), std::pair(250.0, 5e-4)}) {
    const LeastSquaresFit fit = least_squares({{"b1", b1, 0.0}, {"b2", b2, 0.0}}, kMisraX.size(),
                                              misra, {.huber = std::nullopt});
    EXPECT_NEAR(fit.value(0), 2.3894212918e+02, 1e-4);
    EXPECT_NEAR(fit.value(1), 5.5015643181e-04, 1e-9);
    EXPECT_NEAR(fit.values[0].standard_error, 2.7070075241, 1e-3);
    EXPECT_NEAR(fit.values[1].standard_error, 7.2668688436e-06, 1e-8);
    EXPECT_NEAR(fit.residual_deviation, 1.0187876330e-01, 1e-6);
  }
}

// y = 2 + 3 x on x = 0 .. 19 with a little noise; every tenth value is wrong by 100.
void line_with_outliers(std::span<const double> p, std::span<double> residuals) {
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    const double x = static_cast<double>(i), noise = 0.01 * std::sin(7.0 * x);
    residuals[i] = p[0] + p[1] * x - (2.0 + 3.0 * x + noise + (i % 10 == 9 ? 100.0 : 0.0));
  }
}

TEST(LeastSquares, HuberWeightsIgnoreOutliers) {
  const std::vector<Parameter> parameters{{"offset", 0.0}, {"slope", 1.0}};
  const LeastSquaresFit robust = least_squares(parameters, 20, line_with_outliers);
  EXPECT_NEAR(robust.value(0), 2.0, 0.02);
  EXPECT_NEAR(robust.value(1), 3.0, 0.005);
  const LeastSquaresFit plain =
      least_squares(parameters, 20, line_with_outliers, {.huber = std::nullopt});
  EXPECT_GT(std::abs(plain.value(1) - 3.0), 0.5);
}

TEST(LeastSquares, StandardErrorsOfAMeanFollowTheSampleSize) {
  // The mean of n values of deviation s has the error s / sqrt(n).
  std::mt19937 generator(1);
  std::normal_distribution<double> normal(5.0, 0.3);
  std::vector<double> values(400);
  for (double& value : values) value = normal(generator);
  const auto residuals = [&](std::span<const double> p, std::span<double> out) {
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = p[0] - values[i];
  };
  const LeastSquaresFit fit =
      least_squares({{"mean", 1.0}}, values.size(), residuals, {.huber = std::nullopt});
  EXPECT_NEAR(fit.value(0), 5.0, 3.0 * 0.3 / 20.0);
  EXPECT_NEAR(fit.values[0].standard_error, 0.3 / 20.0, 0.1 * 0.3 / 20.0);
}

TEST(LeastSquares, KeepsParametersWithinTheirBounds) {
  // The best value, 2, lies beyond the bound of 1.
  const auto residuals = [](std::span<const double> p, std::span<double> out) {
    out[0] = out[1] = p[0] - 2.0;
  };
  const LeastSquaresFit fit =
      least_squares({{"ratio", 0.5, 0.0, 1.0}}, 2, residuals, {.huber = std::nullopt});
  EXPECT_LE(fit.value(0), 1.0);
  EXPECT_GT(fit.value(0), 0.99);
}

// Of a mean of 2 and a noise of 0.1 in turn, whatever the bounds that its parameter is free between.
TEST(LeastSquares, BoundsDoNotChangeWhatLiesBetweenThem) {
  const auto residuals = [](std::span<const double> p, std::span<double> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = p[0] - (i % 2 ? 2.1 : 1.9);
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [least, most] :
       {std::pair(-inf, inf), {0.0, inf}, {1.0, inf}, {0.0, 10.0}, {1.5, 2.25}}) {
    const LeastSquaresFit fit = least_squares({{"mean", 1.8, least, most}}, 16, residuals);
    EXPECT_NEAR(fit.value(0), 2.0, 1e-6) << least << " " << most;
    EXPECT_NEAR(fit.residual_deviation, 0.1 * std::sqrt(16.0 / 15.0), 1e-6);
    EXPECT_NEAR(fit.values[0].standard_error, 0.1 / std::sqrt(15.0), 1e-5) << least << " " << most;
    EXPECT_NEAR(fit.rms, 0.1, 1e-6);
    ASSERT_EQ(fit.residuals.size(), 16u);
    EXPECT_NEAR(fit.residuals[0], 0.1, 1e-6);
    EXPECT_EQ(fit.values[0].name, "mean");
  }
}

// Of 0, 0, 0, 0 and 10 the mean with Huber weights: the residuals of the four are the median, h =
// 1.345 times 1.4826 of it may be had in full, so that 4 m = 1.345 * 1.4826 m fails but at m = 0.
TEST(LeastSquares, MostEqualValuesOutvoteOne) {
  const auto residuals = [](std::span<const double> p, std::span<double> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = p[0] - (i == 4 ? 10.0 : 0.0);
  };
  EXPECT_NEAR(least_squares({{"mean", 5.0}}, 5, residuals).value(0), 0.0, 0.1);
  EXPECT_NEAR(least_squares({{"mean", 5.0}}, 5, residuals, {.huber = std::nullopt}).value(0), 2.0,
              1e-9);
}

// Symmetric outliers leave the mean and count with sqrt(w) = sqrt(h s / r): with four residuals of
// 1 and two of 10, s = 1.4826, so that each of the two is h s * 10 of a square.
TEST(LeastSquares, OutliersCountLessInTheErrorToo) {
  const double values[] = {1.0, -1.0, 1.0, -1.0, 10.0, -10.0};
  const auto residuals = [&](std::span<const double> p, std::span<double> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = p[0] - values[i];
  };
  const LeastSquaresFit fit = least_squares({{"mean", 0.2}}, 6, residuals);
  const double most = 1.345 * 1.4826, squares = 4.0 + 2.0 * most * 10.0,
               weights = 4.0 + 2.0 * most / 10.0;
  EXPECT_NEAR(fit.value(0), 0.0, 1e-6);
  EXPECT_NEAR(fit.residual_deviation, std::sqrt(squares / 5.0), 1e-5);
  EXPECT_NEAR(fit.values[0].standard_error, std::sqrt(squares / 5.0 / weights), 1e-5);
}

// ln p - ln 0.01 from p = 1: the first step would go to 1 - 4.6, where there is no logarithm.
TEST(LeastSquares, AStepToWhereAResidualIsNotFiniteIsShortened) {
  const auto residuals = [](std::span<const double> p, std::span<double> out) {
    out[0] = std::log(p[0]) - std::log(0.01);
    out[1] = 0.0;
  };
  EXPECT_NEAR(least_squares({{"p", 1.0}}, 2, residuals, {.huber = std::nullopt}).value(0), 0.01,
              1e-4);
}

// As many values as parameters: nothing is left over.
TEST(LeastSquares, AsManyValuesAsParametersAreMetExactly) {
  const auto residuals = [](std::span<const double> p, std::span<double> out) {
    out[0] = p[0] + p[1] - 3.0, out[1] = p[0] - p[1] - 1.0;
  };
  const LeastSquaresFit fit =
      least_squares({{"a", 0.0}, {"b", 0.0}}, 2, residuals, {.huber = std::nullopt});
  EXPECT_NEAR(fit.value(0), 2.0, 1e-9);
  EXPECT_NEAR(fit.value(1), 1.0, 1e-9);
  EXPECT_NEAR(fit.values[0].standard_error, 0.0, 1e-9);
}

TEST(LeastSquares, RefusesWhatCannotBeFitted) {
  const auto residuals = [](std::span<const double>, std::span<double> out) { out[0] = 0.0; };
  EXPECT_THROW(least_squares({{"a", 0.0}, {"b", 0.0}}, 1, residuals), Error);
  EXPECT_THROW(least_squares({{"ratio", 2.0, 0.0, 1.0}}, 1, residuals), Error);
  for (const double on_a_bound : {0.0, 1.0})
    EXPECT_THROW(least_squares({{"ratio", on_a_bound, 0.0, 1.0}}, 1, residuals), Error);
  const auto unknown = [](std::span<const double>, std::span<double> out) {
    out[0] = std::nan("");
  };
  EXPECT_THROW(least_squares({{"a", 1.0}}, 1, unknown), Error);
}

}  // namespace
}  // namespace llmsim::calibrate
