#include "hwdb/text/spelling.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

TEST(EditDistance, CountsSingleCharacterChanges) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // k->s, e->i, +g
  EXPECT_EQ(edit_distance("zero4", "zero3"), 1);
}

TEST(EditDistance, IsSymmetric) {
  EXPECT_EQ(edit_distance("flaw", "lawn"), edit_distance("lawn", "flaw"));
}

TEST(Nearest, IsTheFirstOfTheClosest) {
  EXPECT_EQ(nearest("zero4", {"none", "zero1", "zero2"}), "zero1");
  EXPECT_EQ(did_you_mean("zero4", {"none", "zero1"}), "; did you mean zero1?");
}

TEST(Nearest, IsNoneWhereMostOfTheWordDiffers) {
  EXPECT_FALSE(nearest("xyz", {"num_layers", "abc"}));
  EXPECT_FALSE(nearest("x", {}));
  EXPECT_EQ(did_you_mean("xyz", {"num_layers"}), "");
}

}  // namespace
}  // namespace llmsim::hwdb
