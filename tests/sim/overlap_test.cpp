#include "sim/schedule/overlap.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmsim::sim {
namespace {

std::vector<OverlapBlock> blocks(int count, double gather, double compute, double reduce) {
  return std::vector<OverlapBlock>(static_cast<std::size_t>(count),
                                   {.gather = Seconds(gather), .compute = Seconds(compute), .reduce = Seconds(reduce)});
}

TEST(Overlap, FastGathersHideBehindAllButTheFirstBlock) {
  // gather 1, compute 3: only the first gather is seen.
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 1.0, 3.0, 0.0), true, true).value(), 1.0 + 10 * 3.0);
}

TEST(Overlap, SlowGathersSetThePace) {
  // gather 3, compute 1: the stream never rests, the last block computes after its gather.
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 3.0, 1.0, 0.0), true, true).value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, OnlyTheLastReductionIsSeen) {
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 0.0, 3.0, 1.0), true, true).value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, WithoutPrefetchOrOverlapEverythingAddsUp) {
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 1.0, 3.0, 0.0), false, true).value(), 40.0);
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 1.0, 3.0, 1.0), true, false).value(), 50.0);
}

TEST(Overlap, NothingEndsBeforeItsTrafficOrItsCompute) {
  for (const double gather : {0.0, 0.5, 2.0}) {
    for (const double reduce : {0.0, 0.5, 2.0}) {
      const double end = overlap_end(blocks(7, gather, 1.0, reduce), true, true).value();
      EXPECT_GE(end, 7.0);
      EXPECT_GE(end, 7 * (gather + reduce));
      EXPECT_LE(end, 7 * (gather + 1.0 + reduce) + 1e-12);
    }
  }
}

}  // namespace
}  // namespace llmsim::sim
