#include "hwdb/detail_words.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

TEST(DetailWords, AWordEndsAtTheNextSeparator) {
  EXPECT_EQ(word_after("core; etp=1; moe_dispatcher=alltoall", "etp"), "1");
  EXPECT_EQ(word_after("core; etp=1; moe_dispatcher=alltoall", "moe_dispatcher"), "alltoall");
  EXPECT_EQ(word_after("a=one,b=two three", "b"), std::nullopt);  // follows a comma: part of what a is
  EXPECT_EQ(word_after("b=two three", "b"), "two");
}

TEST(DetailWords, ALongerNameIsAnotherOne) {
  EXPECT_EQ(word_after("moe_etp=2; etp=1", "etp"), "1");
  EXPECT_EQ(word_after("moe_etp=2", "etp"), std::nullopt);
}

TEST(DetailWords, ASwitchIsTrueOrFalse) {
  EXPECT_EQ(switch_after("overlap_grad_reduce=true;overlap_param_gather=false", "overlap_grad_reduce"), true);
  EXPECT_EQ(switch_after("overlap_grad_reduce=true;overlap_param_gather=false", "overlap_param_gather"), false);
  EXPECT_EQ(switch_after("overlap_param_gather=maybe", "overlap_param_gather"), std::nullopt);
  EXPECT_EQ(switch_after("", "overlap_param_gather"), std::nullopt);
}

}  // namespace
}  // namespace llmsim::hwdb
