#include "tests/mutation/sample/sample.h"

#include <gtest/gtest.h>

// Of 10 it says nothing, so that x >= 10 survives.
TEST(Sample, IsLarge) {
  EXPECT_TRUE(is_large(11));
  EXPECT_FALSE(is_large(9));
}

TEST(Sample, Halvings) { EXPECT_EQ(halvings(8), 3); }
