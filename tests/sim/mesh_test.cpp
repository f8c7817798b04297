#include "sim/strategy/mesh.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(Mesh, TensorRanksAreNeighbours) {
  // 8 ranks next to each other on nodes of 8: one node, no other group on it.
  EXPECT_EQ(
      place_group({{8, 1}, {}}, 8),
      (GroupPlacement{
          .ranks = 8, .stride = 1, .ranks_per_domain = 8, .domains = 1, .groups_per_domain = 1}));
}

TEST(Mesh, DataRanksStrideOverTheTensorRanks) {
  // tp 4: data ranks are 4 apart, so a node of 8 holds 2 of each group and 4 groups.
  EXPECT_EQ(
      place_group({{16, 4}, {}}, 8),
      (GroupPlacement{
          .ranks = 16, .stride = 4, .ranks_per_domain = 2, .domains = 8, .groups_per_domain = 4}));
}

TEST(Mesh, AStrideBeyondTheNodePutsOneRankOnEach) {
  EXPECT_EQ(
      place_group({{4, 64}, {}}, 8),
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

// 2 tensor ranks, 4 stages, 4 data ranks on nodes of 8.  Pipelines last: stages are 2 * 4 = 8
// devices apart, one on each node, and a node has all 4 data ranks of a stage.  Data ranks last: a
// node has all 4 stages, 2 devices apart, and data ranks are 2 * 4 = 8 apart.
TEST(Mesh, OneOfStagesAndDataRanksIsInsideNodes) {
  TrainingRun run = small_run(32);
  run.cluster.devices_per_node = run.cluster.fabric.devices = 8;
  run.strategy.tp = 2, run.strategy.pp = 4, run.strategy.dp = 4;
  const auto place = [&](GroupKind kind) { return place_group(run.strategy, kind, run.cluster); };
  const GroupPlacement inside{
      .ranks = 4, .stride = 2, .ranks_per_domain = 4, .domains = 1, .groups_per_domain = 2};
  const GroupPlacement across{
      .ranks = 4, .stride = 8, .ranks_per_domain = 1, .domains = 4, .groups_per_domain = 8};
  EXPECT_EQ(place(GroupKind::DataContext), inside);
  EXPECT_EQ(place(GroupKind::Pipeline), across);
  run.strategy.mesh_order = MeshOrder::DataLast;
  EXPECT_EQ(place(GroupKind::DataContext), across);
  EXPECT_EQ(place(GroupKind::ExpertData), across);
  EXPECT_EQ(place(GroupKind::Pipeline), inside);
  EXPECT_EQ(place(GroupKind::Tensor).stride, 1);
}

// 2 context ranks, 2 stages, 4 data ranks on nodes of 4.  The 2 x 4 ranks that share gradients are
// 0 1, 4 5, 8 9, 12 13 where stages are between data ranks: two on each of four nodes.  Of 4 that
// share states, HSDP, the first are 0 1 4 5, and 0 and 8 are copies.
TEST(Mesh, StagesLieBetweenDataRanksButNotBetweenContextRanks) {
  Strategy s;
  s.cp = 2, s.pp = 2, s.dp = 4, s.ep = 2;
  s.sharding = Sharding::Hsdp, s.shard_size = 4;
  s.mesh_order = MeshOrder::DataLast;
  const GroupAxes all = group_axes(s, GroupKind::DataContext);
  EXPECT_EQ(all.inner, (GroupAxis{.ranks = 2, .stride = 1}));
  EXPECT_EQ(all.outer, (GroupAxis{.ranks = 4, .stride = 4}));
  const GroupPlacement place = place_group(all, 4);
  EXPECT_EQ(place.ranks_per_domain, 2);
  EXPECT_EQ(place.domains, 4);
  EXPECT_EQ(place.groups_per_domain, 2);
  EXPECT_EQ(group_axes(s, GroupKind::Shard).outer, (GroupAxis{.ranks = 2, .stride = 4}));
  EXPECT_EQ(group_axes(s, GroupKind::Replicate).inner, (GroupAxis{.ranks = 2, .stride = 8}));
  s.shard_size = 1;
  EXPECT_EQ(group_axes(s, GroupKind::Replicate).inner, all.inner);
  EXPECT_EQ(group_axes(s, GroupKind::Replicate).outer, all.outer);
}

// Whatever the order, the groups of a kind cover the devices of a mesh once each.
TEST(Mesh, EveryDeviceIsInOneGroupOfEachKind) {
  Strategy s;
  s.tp = 2, s.cp = 4, s.pp = 3, s.dp = 4, s.ep = 2, s.cp_inner = 2;
  for (const MeshOrder order : {MeshOrder::PipelineLast, MeshOrder::DataLast}) {
    s.mesh_order = order;
    for (const GroupKind kind :
         {GroupKind::Tensor, GroupKind::Context, GroupKind::ContextInner, GroupKind::ContextOuter,
          GroupKind::Data, GroupKind::DataContext, GroupKind::Pipeline}) {
      const GroupAxes axes = group_axes(s, kind);
      int firsts = 0;
      for (int rank = 0; rank < s.num_devices(); ++rank) {
        const auto place = [&](const GroupAxis& axis) { return rank / axis.stride % axis.ranks; };
        firsts += place(axes.inner) == 0 && place(axes.outer) == 0;
      }
      EXPECT_EQ(firsts * axes.ranks(), s.num_devices()) << name_of(kind);
    }
  }
}

// 2 tensor ranks and 8 context ranks of which 4 are neighbours, on nodes of 8: the all-to-all stays
// on one, the ring steps from node to node.
TEST(Mesh, AnAllToAllInsideARingIsOfNeighbours) {
  Strategy s;
  s.tp = 2, s.cp = 8, s.cp_inner = 4;
  const GroupPlacement inner = place_group(group_axes(s, GroupKind::ContextInner), 8),
                       outer = place_group(group_axes(s, GroupKind::ContextOuter), 8);
  EXPECT_EQ(inner.ranks, 4);
  EXPECT_EQ(inner.stride, 2);
  EXPECT_EQ(inner.domains, 1);
  EXPECT_EQ(outer.ranks, 2);
  EXPECT_EQ(outer.stride, 8);
  EXPECT_EQ(outer.domains, 2);
  EXPECT_EQ(outer.groups_per_domain, 8);
}

// 8 heads and as many keys: 4 of a tensor rank; a node has 8 devices.
TEST(Mesh, TheUsualAllToAllDividesHeadsInsideADomain) {
  Transformer model = small_model();
  Strategy s;
  s.tp = 2, s.cp = 16;
  EXPECT_EQ(usual_context_inner(model, s, 8), 4);
  EXPECT_EQ(usual_context_inner(model, s, 72), 4);
  EXPECT_EQ(usual_context_inner(model, s, 4), 2);
  EXPECT_EQ(usual_context_inner(model, s, 1), 1);
  model.num_kv_heads = 4;
  EXPECT_EQ(usual_context_inner(model, s, 8), 2);
  s.cp = 3;
  EXPECT_EQ(usual_context_inner(model, s, 8), 1);
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
