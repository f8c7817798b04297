#include "sim/memory/caching_allocator.h"

#include <vector>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

TEST(CachingAllocator, SmallRequestsShareASegmentOfTwoMebibytes) {
  CachingAllocator allocator;
  allocator.take(Bytes(1.0));
  EXPECT_EQ(allocator.allocated(), Bytes(512.0));
  EXPECT_EQ(allocator.reserved(), 2.0 * MiB);
  allocator.take(Bytes(513.0));
  EXPECT_EQ(allocator.allocated(), Bytes(512.0 + 1024.0));
  allocator.take(1.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 2.0 * MiB);
  allocator.take(1.0 * MiB);  // 1 MiB - 1.5 KiB are left
  EXPECT_EQ(allocator.reserved(), 4.0 * MiB);
}

TEST(CachingAllocator, LargerRequestsShareSegmentsOfTwentyMebibytesAndTheLargestHaveTheirOwn) {
  CachingAllocator allocator;
  allocator.take(2.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 20.0 * MiB);
  allocator.take(9.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 20.0 * MiB);
  allocator.take(11.0 * MiB);  // 9 MiB are left: a segment of 12
  EXPECT_EQ(allocator.reserved(), 32.0 * MiB);
}

TEST(CachingAllocator, WhatIsNotWorthABlockCountsAsAllocated) {
  CachingAllocator allocator;
  const auto block = allocator.take(12.0 * MiB);
  allocator.give(block);
  EXPECT_EQ(allocator.allocated(), Bytes(0.0));
  allocator.take(11.0 * MiB);  // of the 12 there, 1 is not split off
  EXPECT_EQ(allocator.allocated(), 12.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 12.0 * MiB);
}

TEST(CachingAllocator, TheSmallestBlockThatFitsIsTaken) {
  CachingAllocator allocator;
  const auto large = allocator.take(40.0 * MiB);
  const auto middle = allocator.take(30.0 * MiB);
  allocator.give(large);
  allocator.give(middle);
  allocator.take(28.0 * MiB);
  allocator.take(40.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 70.0 * MiB);
}

TEST(CachingAllocator, NeighboursJoinWithinASegmentOnly) {
  CachingAllocator allocator;
  const auto first = allocator.take(6.0 * MiB);
  const auto second = allocator.take(6.0 * MiB);
  const auto third = allocator.take(8.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 20.0 * MiB);
  allocator.give(first);
  allocator.give(third);
  allocator.give(second);  // joins both
  allocator.take(20.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 20.0 * MiB);

  CachingAllocator apart;
  const auto a = apart.take(10.0 * MiB), b = apart.take(10.0 * MiB);
  apart.give(a);
  apart.give(b);
  apart.take(20.0 * MiB);  // two segments of 10 are free
  EXPECT_EQ(apart.reserved(), 40.0 * MiB);
}

TEST(CachingAllocator, AGapThatNothingFitsIntoStaysReserved) {
  CachingAllocator allocator;
  const auto gap = allocator.take(10.0 * MiB);
  allocator.take(10.0 * MiB);
  allocator.give(gap);
  allocator.take(12.0 * MiB);
  EXPECT_EQ(allocator.allocated(), 22.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 32.0 * MiB);
  EXPECT_EQ(allocator.allocated_peak(), 22.0 * MiB);
}

TEST(CachingAllocator, ASegmentThatGrowsUsesWhatIsFreeAtItsEnd) {
  CachingAllocator allocator(true);
  const auto first = allocator.take(10.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 20.0 * MiB);
  allocator.take(2.0 * MiB);
  allocator.take(30.0 * MiB);  // 8 MiB are there, 22 are missing: two units of 20
  EXPECT_EQ(allocator.reserved(), 60.0 * MiB);
  EXPECT_EQ(allocator.allocated(), 42.0 * MiB);
  allocator.give(first);
  allocator.take(9.5 * MiB);  // the gap of 10, and not the 18 at the end
  allocator.take(18.0 * MiB);
  EXPECT_EQ(allocator.reserved(), 60.0 * MiB);
  EXPECT_EQ(allocator.allocated(), 59.5 * MiB);
}

// Sizes that come in another order than the gaps they left can need more, but not for ever.
TEST(CachingAllocator, ARepeatedStepComesToRest) {
  for (const bool expandable : {false, true}) {
    CachingAllocator allocator(expandable);
    Bytes before;
    for (int step = 0; step < 6; ++step) {
      before = allocator.reserved();
      std::vector<CachingAllocator::Block> blocks;
      for (int i = 0; i < 200; ++i) blocks.push_back(allocator.take(Bytes(1000.0 * i * i)));
      for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.give(blocks[i]);
      for (std::size_t i = 1; i < blocks.size(); i += 2) allocator.give(blocks[i]);
      EXPECT_EQ(allocator.allocated(), Bytes(0.0));
    }
    EXPECT_EQ(allocator.reserved(), before);
    EXPECT_GE(allocator.reserved_peak(), allocator.allocated_peak());
  }
}

}  // namespace
}  // namespace llmsim::sim
