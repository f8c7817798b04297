#include "sim/schedule/overlap.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/share.h"
#include "tests/sim/random_run.h"

namespace llmsim::sim {
namespace {

std::vector<OverlapUnit> blocks(int count, double gather, double compute, double reduce) {
  return std::vector<OverlapUnit>(
      static_cast<std::size_t>(count),
      {.gather = Seconds(gather), .compute = Seconds(compute), .reduce = Seconds(reduce)});
}

constexpr OverlapBehaviour kExposed{.gathers_overlap = false, .reductions_overlap = false};

TEST(Overlap, FastGathersHideBehindAllButTheFirstBlock) {
  // gather 1, compute 3: only the first gather is seen.
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 1.0, 3.0, 0.0), {}).end.value(), 1.0 + 10 * 3.0);
}

TEST(Overlap, SlowGathersSetThePace) {
  // gather 3, compute 1: the stream never rests, the last block computes after its gather.
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 3.0, 1.0, 0.0), {}).end.value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, OnlyTheLastReductionIsSeen) {
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 0.0, 3.0, 1.0), {}).end.value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, WithoutPrefetchOrOverlapEverythingAddsUp) {
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 1.0, 3.0, 0.0), {.prefetch = 0}).end.value(), 40.0);
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 1.0, 3.0, 1.0), kExposed).end.value(), 50.0);
}

// Equal units as one, most of which are left out, and one by one.
TEST(Overlap, EqualUnitsTakeAsLongAsOneByOne) {
  constexpr OverlapLoss kLoss{.channel = 0.3, .replicas = 0.2};
  for (unsigned seed = 0; seed < share_of(3000); ++seed) {
    SCOPED_TRACE(seed);
    RandomChoice choose(seed);
    std::vector<OverlapUnit> equal, single;
    for (int group = choose.of({1, 2, 3}); group > 0; --group) {
      const OverlapUnit unit{.gather = Seconds(choose.of({0.0, 0.0, 0.4, 1.0, 2.7})),
                             .compute = Seconds(choose.of({0.0, 0.5, 1.0, 1.3})),
                             .reduce = Seconds(choose.of({0.0, 0.3, 1.0, 1.1, 2.0, 5.0})),
                             .replicate = Seconds(choose.of({0.0, 0.0, 0.0, 0.7})),
                             .count = choose.of({1, 2, 5, 40, 80})};
      equal.push_back(unit);
      for (int i = 0; i < unit.count; ++i) single.push_back(unit), single.back().count = 1;
    }
    const OverlapBehaviour habits{.prefetch = choose.of({0, 1, 2, 4}),
                                  .gathers_overlap = choose.yes(),
                                  .reductions_overlap = choose.below(4) > 0,
                                  .scatters_alone = choose.below(4) == 0};
    const OverlapTimes one = overlap_times(equal, habits, kLoss),
                       other = overlap_times(single, habits, kLoss);
    EXPECT_NEAR(one.end.value(), other.end.value(), 1e-11 * other.end.value());
    EXPECT_NEAR(one.slowdown.value(), other.slowdown.value(), 1e-11 * other.end.value());
  }
}

TEST(Overlap, NothingEndsBeforeItsTrafficOrItsCompute) {
  for (const double gather : {0.0, 0.5, 2.0}) {
    for (const double reduce : {0.0, 0.5, 2.0}) {
      const double end = overlap_times(blocks(7, gather, 1.0, reduce), {}).end.value();
      EXPECT_GE(end, 7.0);
      EXPECT_GE(end, 7 * (gather + reduce));
      EXPECT_LE(end, 7 * (gather + 1.0 + reduce) + 1e-12);
    }
  }
}

TEST(Overlap, OneCommunicatorCarriesOneCollectiveAtATime) {
  // Backward of sharded weights, gather 2, compute 3, reduce 2: from the second unit on the channel
  // needs 4 for every 3 of compute.
  //   g0 0-2, g1 2-4, c0 2-5, r0 5-7, c1 5-8, g2 7-9 (issued at 5, behind r0), r1 9-11, c2 9-12, r2
  //     12-14
  EXPECT_DOUBLE_EQ(overlap_times(blocks(3, 2.0, 3.0, 2.0), {}).end.value(), 14.0);
}

TEST(Overlap, AnUnlimitedPrefetchKeepsTheChannelBusy) {
  // Units that compute 4, 0 and 4 with gathers of 2.  One ahead, g2 is issued when c1 starts, at 6,
  // and c2 runs 8-12; without a limit all gathers are through at 6 and c2 runs 6-10.
  std::vector<OverlapUnit> units = blocks(3, 2.0, 4.0, 0.0);
  units[1].compute = Seconds(0.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {}).end.value(), 12.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.prefetch = kMostPrefetch}).end.value(), 10.0);
}

TEST(Overlap, SumsOverReplicasOverlapWithTheNextReduction) {
  // compute 1, scatter 2, replicate 2: scatters end at 3, 5, 7; each sum starts there and ends 2
  // later.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(2.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {}).end.value(), 9.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, kExposed).end.value(), 15.0);
}

TEST(Overlap, ComputeIsSlowedDownOnlyWhileTheChannelIsBusy) {
  // gather 1, compute 3, loss 0.25.  c0 1-: g1 is under way until 2, by when 0.75 of the 3 is done:
  // 1 + 1 + 2.25 = 4.25.  Each of the first nine units takes 0.25 longer, the last has nothing
  // beside it.
  const OverlapTimes times = overlap_times(blocks(10, 1.0, 3.0, 0.0), {}, {.channel = 0.25});
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 9 * 0.25);
  EXPECT_DOUBLE_EQ(times.end.value(), 1.0 + 10 * 3.0 + 9 * 0.25);
}

TEST(Overlap, SlowComputeUnderALongerCollectiveCostsNoTime) {
  // gather 3, compute 1: a loss of a half makes 2 of each 1 but the last, and the channel still
  // sets the pace.
  const OverlapTimes times = overlap_times(blocks(10, 3.0, 1.0, 0.0), {}, {.channel = 0.5});
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 9 * 1.0);
  EXPECT_DOUBLE_EQ(times.end.value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, BothCommunicatorsTakeTheirShare) {
  // compute 4, scatter 1, replicate 1 after it, losses 0.5 and 0.25: c1 from 4 does 0.5 by 5, 0.75
  // by 6 and the other 2.75 by 8.75.
  std::vector<OverlapUnit> units = blocks(2, 0.0, 4.0, 1.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(1.0);
  const OverlapTimes times = overlap_times(units, {}, {.channel = 0.5, .replicas = 0.25});
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 0.75);
  EXPECT_DOUBLE_EQ(times.end.value(), 8.75 + 2.0);
}

TEST(Overlap, ComputeWaitsForReductionsThatRunAlone) {
  // gather 1, compute 3, reduce 2: 1 + 3 * (3 + 2); gathers stay hidden, and only they slow compute
  // down.
  const std::vector<OverlapUnit> units = blocks(3, 1.0, 3.0, 2.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.scatters_alone = true}).end.value(), 1.0 + 3 * 5.0);
  EXPECT_DOUBLE_EQ(
      overlap_times(units, {.scatters_alone = true}, {.channel = 0.25}).slowdown.value(), 2 * 0.25);
}

TEST(Overlap, EachKindIsExposedByItself) {
  // gather 1, compute 3, reduce 2.  Gathers apart: g0 0-1, c0 1-4, g1 4-5 before r0 5-7, c1 5-8, g2
  // 8-9, r1 9-11, c2 9-12, r2 12-14.
  const std::vector<OverlapUnit> units = blocks(3, 1.0, 3.0, 2.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.gathers_overlap = false}).end.value(), 14.0);
  // Reductions apart: g1 and g2 are beside c0 and c1.
  EXPECT_DOUBLE_EQ(overlap_times(units, {.reductions_overlap = false}).end.value(),
                   1.0 + 3 * (3.0 + 2.0));
  EXPECT_DOUBLE_EQ(overlap_times(units, kExposed).end.value(), 3 * (1.0 + 3.0 + 2.0));
}

TEST(Overlap, ExposedReductionsEndWithTheSumOverReplicas) {
  std::vector<OverlapUnit> units = blocks(2, 0.0, 3.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(4.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.reductions_overlap = false}).end.value(),
                   2 * (3.0 + 2.0 + 4.0));
}

TEST(Overlap, NoOverlapNoSlowdown) {
  EXPECT_EQ(overlap_times(blocks(10, 1.0, 3.0, 1.0), kExposed, {.channel = 0.5}).slowdown,
            Seconds(0.0));
}

TEST(Overlap, MoreLossNeverEndsEarlier) {
  double before = 0.0;
  for (const double loss : {0.0, 0.1, 0.3, 0.6}) {
    const double end = overlap_times(blocks(7, 1.0, 1.5, 1.0), {}, {.channel = loss}).end.value();
    EXPECT_GE(end, before);
    before = end;
  }
}

TEST(Overlap, ASumOverReplicasFollowsComputeWhereNothingIsReduced) {
  // compute 3, replicate 4: sums run 3-7 and 7-11; apart, the second unit computes when the first
  // sum is through.
  std::vector<OverlapUnit> units = blocks(2, 0.0, 3.0, 0.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(4.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {}).end.value(), 11.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.reductions_overlap = false}).end.value(), 14.0);
}

TEST(Overlap, BothCommunicatorsTakeNoMoreThanNineTenths) {
  // compute 1, scatter 2, replicate 10, losses 0.6 and 0.5.  c0 0-1, r0 1-3, sums from 3 on.  c1
  // does 0.8 by 3 and 0.2 by 3.4; r1 3.4-5.4, beside which and the sum c2 has a tenth of its rate:
  // 0.2 by 5.4, 0.8 by 7.  r2 7-9, and the third sum ends at 33.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(10.0);
  const OverlapTimes times = overlap_times(units, {}, {.channel = 0.6, .replicas = 0.5});
  EXPECT_NEAR(times.slowdown.value(), (3.4 - 1.0 - 1.0) + (7.0 - 3.4 - 1.0), 1e-12);
  EXPECT_NEAR(times.end.value(), 33.0, 1e-12);
}

TEST(Overlap, EverySumOverReplicasSlowsComputeDown) {
  // compute 1, scatter 2, replicate 2, losses 0.6 and 0.5.  c0 0-1, r0 1-3, s0 3-5.  c1 does 0.8 by
  // 3 and 0.2 by 3.4; r1 3.4-5.4, s1 5.4-7.4.  c2 has a tenth of its rate by 5, 0.4 by 5.4 and a
  // half after that: 0.16 + 0.16, and 0.68 by 6.76.  r2 6.76-8.76.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(2.0);
  const OverlapTimes times = overlap_times(units, {}, {.channel = 0.6, .replicas = 0.5});
  EXPECT_NEAR(times.slowdown.value(), (3.4 - 1.0 - 1.0) + (6.76 - 3.4 - 1.0), 1e-12);
  EXPECT_NEAR(times.end.value(), 10.76, 1e-12);
}

// The closed form of overlap.h with c = 1.
double exposed_gather(int n, double g, double l) {
  const double overlapped = std::min(1.0 + l * g, 1.0 / (1.0 - l));
  return g + (n - 1) * std::max(0.0, g - overlapped);
}

// n units over grids of g and l.
TEST(ExposedGather, OfEqualUnitsHasAClosedForm) {
  for (const int n : {1, 2, 3, 10, 80}) {
    for (const double g : {0.0, 0.2, 0.99, 1.0, 1.5, 7.0}) {
      const std::vector<OverlapUnit> units = blocks(n, g, 1.0, 0.0);
      for (const double l : {0.0, 0.1, 0.3, 0.8}) {
        for (const int prefetch : {0, 1}) {
          const OverlapTimes times = overlap_times(units, {.prefetch = prefetch}, {.channel = l});
          EXPECT_NEAR((times.end - times.slowdown).value() - n,
                      prefetch > 0 ? exposed_gather(n, g, l) : n * g, 1e-12 * n)
              << n << ", " << g << ", " << l;
        }
      }
      // A deeper prefetch changes nothing where compute loses nothing.
      const double deep = overlap_times(units, {.prefetch = 4}).end.value() - n;
      EXPECT_NEAR(exposed_gather(n, g, 0.0), deep, 1e-12 * n);
    }
  }
}

}  // namespace
}  // namespace llmsim::sim
