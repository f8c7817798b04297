#include "calibrate/two_piece_student.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
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

TEST(TwoPieceStudent, NothingTellsNothing) {
  EXPECT_EQ(fit_two_piece({}).below, 1.0);
  EXPECT_EQ(fit_two_piece({}).above, 1.0);
}

}  // namespace
}  // namespace llmsim::calibrate
