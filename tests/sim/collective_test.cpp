#include "sim/cost/collective.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

GroupLinks links_of(const TrainingRun& run, GroupKind kind) { return group_links(run.strategy, kind, run.cluster, 1.0); }

TEST(Collective, OneRankIsFree) {
  const GroupLinks links = links_of(small_run(1), GroupKind::Data);
  for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::SendRecv}) {
    EXPECT_EQ(collective_time(kind, 1.0 * GiB, links), Seconds(0.0));
  }
}

TEST(Collective, LargeMessagesRunAtTheBusBandwidth) {
  // 8 ranks in one node at 100 GB/s: an all-gather of S moves 7/8 S, an all-reduce twice that; latencies are microseconds.
  const GroupLinks links = links_of(small_run(8), GroupKind::Data);
  const double size = 8e9;
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(size), links).value(), 7.0 / 8.0 * size / 100e9, 1e-4);
  EXPECT_NEAR(collective_time(CollectiveKind::AllReduce, Bytes(size), links).value(), 2.0 * 7.0 / 8.0 * size / 100e9, 1e-4);
}

TEST(Collective, AcrossNodesTheNetworkSetsThePace) {
  // 16 ranks on two nodes of 80 GB/s injection: bus bandwidth 80 GB/s, below the fabric's 100.
  const GroupLinks links = links_of(small_run(16), GroupKind::Data);
  EXPECT_NEAR(links.bus_bandwidth() / GBps, 80.0, 1e-9);
}

TEST(Collective, GroupsSideBySideShareTheNetwork) {
  // tp 4: four data groups leave each node, so each gets a quarter of 80 GB/s.
  TrainingRun run = small_run(16);
  run.strategy.tensor_parallel = 4, run.strategy.data_parallel = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Data).bus_bandwidth() / GBps, 20.0, 1e-9);
}

TEST(Collective, AMeshGivesAPairOneLink) {
  TrainingRun run = small_run(8);
  run.cluster.fabric.kind = FabricKind::Mesh;
  run.cluster.fabric.device_bandwidth = 448.0 * GBps;
  run.cluster.fabric.pair_bandwidth = 64.0 * GBps;
  EXPECT_NEAR(links_of(run, GroupKind::Data).fabric / GBps, 448.0, 1e-9);
  run.strategy.tensor_parallel = 2, run.strategy.data_parallel = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Tensor).fabric / GBps, 64.0, 1e-9);
}

TEST(Collective, APackagePairIsFasterThanItsNeighbours) {
  TrainingRun run = small_run(8);
  run.cluster.fabric.kind = FabricKind::Paired;
  run.cluster.fabric.package_bandwidth = 200.0 * GBps;
  run.cluster.fabric.pair_bandwidth = 50.0 * GBps;
  run.strategy.tensor_parallel = 2, run.strategy.data_parallel = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Tensor).fabric / GBps, 200.0, 1e-9);
  EXPECT_LT(links_of(run, GroupKind::Data).fabric, 200.0 * GBps);
}

TEST(Collective, ATreeOverTwoNodesSendsEachByteOnce) {
  // 16 ranks on two nodes: a tree crosses 80 GB/s with 2 (2-1)/2 S, a ring with 2 (16-1)/16 S; inside, 2 * 15/16 S at 100 GB/s is
  // longer than 1 S at 80.  Every tree runs at 0.92 and holds back 13.6 MB at its one level, each way, at 80 GB/s.
  const double size = 8e9;
  const double tree = (2.0 * 15.0 / 16.0 * size / 100e9 + 2.0 * 13.6e6 / 80e9) / 0.92;
  const double ring = 2.0 * 15.0 / 16.0 * size / 80e9;
  ASSERT_LT(tree, ring);
  EXPECT_NEAR(collective_time(CollectiveKind::AllReduce, Bytes(size), links_of(small_run(16), GroupKind::Data)).value(), tree,
              1e-4);
}

TEST(Collective, TwoRanksBehindASwitchReachLessThanEight) {
  // (1 + 1.6/64) / (1 + 1.6/4) = 0.732 of 100 GB/s, half of the message on the wire.
  const double expected = 0.5 * 8e9 / (100e9 * 1.025 / 1.4);
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(8e9), links_of(small_run(2), GroupKind::Data)).value(), expected,
              1e-4);
}

TEST(Collective, TimeGrowsWithSizeAndRanks) {
  Seconds last;
  for (const double size : {1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}) {
    const Seconds time = collective_time(CollectiveKind::AllReduce, Bytes(size), links_of(small_run(16), GroupKind::Data));
    EXPECT_GT(time, last);
    last = time;
  }
  EXPECT_LT(collective_time(CollectiveKind::AllGather, 1.0 * GB, links_of(small_run(16), GroupKind::Data)),
            collective_time(CollectiveKind::AllGather, 1.0 * GB, links_of(small_run(64), GroupKind::Data)));
}

}  // namespace
}  // namespace llmsim::sim
