#include "sim/schedule/overlap.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmsim::sim {
namespace {

std::vector<OverlapUnit> blocks(int count, double gather, double compute, double reduce) {
  return std::vector<OverlapUnit>(static_cast<std::size_t>(count),
                                  {.gather = Seconds(gather), .compute = Seconds(compute), .reduce = Seconds(reduce)});
}

TEST(Overlap, FastGathersHideBehindAllButTheFirstBlock) {
  // gather 1, compute 3: only the first gather is seen.
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 1.0, 3.0, 0.0), 1, true).value(), 1.0 + 10 * 3.0);
}

TEST(Overlap, SlowGathersSetThePace) {
  // gather 3, compute 1: the stream never rests, the last block computes after its gather.
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 3.0, 1.0, 0.0), 1, true).value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, OnlyTheLastReductionIsSeen) {
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 0.0, 3.0, 1.0), 1, true).value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, WithoutPrefetchOrOverlapEverythingAddsUp) {
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 1.0, 3.0, 0.0), 0, true).value(), 40.0);
  EXPECT_DOUBLE_EQ(overlap_end(blocks(10, 1.0, 3.0, 1.0), 1, false).value(), 50.0);
}

TEST(Overlap, NothingEndsBeforeItsTrafficOrItsCompute) {
  for (const double gather : {0.0, 0.5, 2.0}) {
    for (const double reduce : {0.0, 0.5, 2.0}) {
      const double end = overlap_end(blocks(7, gather, 1.0, reduce), 1, true).value();
      EXPECT_GE(end, 7.0);
      EXPECT_GE(end, 7 * (gather + reduce));
      EXPECT_LE(end, 7 * (gather + 1.0 + reduce) + 1e-12);
    }
  }
}

TEST(Overlap, OneCommunicatorCarriesOneCollectiveAtATime) {
  // Backward of sharded weights, gather 2, compute 3, reduce 2: from the second unit on the channel needs 4 for every 3 of
  // compute.
  //   g0 0-2, g1 2-4, c0 2-5, r0 5-7, c1 5-8, g2 7-9 (issued at 5, behind r0), r1 9-11, c2 9-12, r2 12-14
  EXPECT_DOUBLE_EQ(overlap_end(blocks(3, 2.0, 3.0, 2.0), 1, true).value(), 14.0);
}

TEST(Overlap, AnUnlimitedPrefetchKeepsTheChannelBusy) {
  // Units that compute 4, 0 and 4 with gathers of 2.  One ahead, g2 is issued when c1 starts, at 6, and c2 runs 8-12; without a
  // limit all gathers are through at 6 and c2 runs 6-10.
  std::vector<OverlapUnit> units = blocks(3, 2.0, 4.0, 0.0);
  units[1].compute = Seconds(0.0);
  EXPECT_DOUBLE_EQ(overlap_end(units, 1, true).value(), 12.0);
  EXPECT_DOUBLE_EQ(overlap_end(units, kMostPrefetch, true).value(), 10.0);
}

TEST(Overlap, SumsOverReplicasRunBesideTheNextReduction) {
  // compute 1, scatter 2, replicate 2: scatters end at 3, 5, 7; each sum starts there and ends 2 later.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(2.0);
  EXPECT_DOUBLE_EQ(overlap_end(units, 1, true).value(), 9.0);
  EXPECT_DOUBLE_EQ(overlap_end(units, 1, false).value(), 15.0);
}

}  // namespace
}  // namespace llmsim::sim
