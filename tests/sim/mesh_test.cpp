#include "sim/strategy/mesh.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(Mesh, TensorRanksAreNeighbours) {
  // 8 ranks next to each other on nodes of 8: one node, no other group on it.
  EXPECT_EQ(
      place_group(8, 1, 8),
      (GroupPlacement{
          .ranks = 8, .stride = 1, .ranks_per_domain = 8, .domains = 1, .groups_per_domain = 1}));
}

TEST(Mesh, DataRanksStrideOverTheTensorRanks) {
  // tp 4: data ranks are 4 apart, so a node of 8 holds 2 of each group and 4 groups.
  EXPECT_EQ(
      place_group(16, 4, 8),
      (GroupPlacement{
          .ranks = 16, .stride = 4, .ranks_per_domain = 2, .domains = 8, .groups_per_domain = 4}));
}

TEST(Mesh, AStrideBeyondTheNodePutsOneRankOnEach) {
  EXPECT_EQ(
      place_group(4, 64, 8),
      (GroupPlacement{
          .ranks = 4, .stride = 64, .ranks_per_domain = 1, .domains = 4, .groups_per_domain = 8}));
}

TEST(Mesh, GroupsMultiplyToTheDevices) {
  Strategy s;
  s.dp = 16, s.tp = 4, s.pp = 2, s.sharding = Sharding::Hsdp, s.shard_size = 8;
  EXPECT_EQ(group_ranks(s, GroupKind::Tensor) * group_ranks(s, GroupKind::Data) *
                group_ranks(s, GroupKind::Pipeline),
            128);
  EXPECT_EQ(group_ranks(s, GroupKind::Shard) * group_ranks(s, GroupKind::Replicate), 16);
  EXPECT_EQ(group_stride(s, GroupKind::Pipeline), 64);
  EXPECT_EQ(group_stride(s, GroupKind::Replicate), 32);
}

// Four stages of 2 data x 4 tensor ranks: the first and the last are 3 * 8 devices apart.
TEST(Mesh, AMirrorIsTwoStages) {
  Strategy s;
  s.dp = 2, s.tp = 4, s.pp = 4, s.pipeline_schedule = PipelineSchedule::DualPipe;
  EXPECT_STREQ(name_of(GroupKind::Mirror), "pp_mirror");
  EXPECT_EQ(group_ranks(s, GroupKind::Mirror), 2);
  EXPECT_EQ(group_stride(s, GroupKind::Mirror), 24);
}

TEST(Mesh, ARackDomainReachesBeyondTheNode) {
  TrainingRun run = small_run(144);
  run.cluster.devices_per_node = 4;
  run.cluster.fabric.devices = 72;
  run.strategy.dp = 144;
  const GroupPlacement place = place_group(run.strategy, GroupKind::Data, run.cluster);
  EXPECT_EQ(place.ranks_per_domain, 72);
  EXPECT_EQ(place.domains, 2);
}

TEST(Mesh, ExpertRanksAreTheInnerPartOfTheDataRanks) {
  Strategy s;
  s.dp = 8, s.cp = 2, s.tp = 4, s.ep = 8;
  EXPECT_EQ(group_ranks(s, GroupKind::Expert), 8);
  EXPECT_EQ(group_stride(s, GroupKind::Expert), 4);
  EXPECT_EQ(group_ranks(s, GroupKind::ExpertData), 2);
  EXPECT_EQ(group_stride(s, GroupKind::ExpertData), 32);
}

// 2 tensor ranks with whole experts: 4 expert ranks are neighbours, and the two sets of 16 ranks
// over that are copies.
TEST(Mesh, WholeExpertsLieOverTheTensorRanksToo) {
  Strategy strategy;
  strategy.tp = 2, strategy.dp = 4, strategy.ep = 4;
  EXPECT_EQ(group_stride(strategy, GroupKind::Expert), 2);
  EXPECT_EQ(group_ranks(strategy, GroupKind::ExpertData), 1);
  strategy.etp = 1;
  EXPECT_EQ(group_stride(strategy, GroupKind::Expert), 1);
  EXPECT_EQ(group_ranks(strategy, GroupKind::ExpertData), 2);
  EXPECT_EQ(group_stride(strategy, GroupKind::ExpertData), 4);
  EXPECT_EQ(group_ranks(strategy, GroupKind::ExpertTensor), 1);
}

}  // namespace
}  // namespace llmsim::sim
