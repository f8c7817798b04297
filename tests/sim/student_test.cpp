#include "sim/base/student.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

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

TEST(Student, TheEndsAreCertain) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(student_probability(infinity), 1.0);
  EXPECT_EQ(student_probability(-infinity), 0.0);
  EXPECT_NEAR(student_probability(1e200), 1.0, 1e-12);
}

}  // namespace
}  // namespace llmsim::sim
