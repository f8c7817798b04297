#include "sim/schedule/orthogonalisation.h"

#include <gtest/gtest.h>

#include "sim/cost/collective.h"
#include "sim/schedule/step.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TrainingRun muon_run(int num_devices = 1, Sharding sharding = Sharding::None) {
  TrainingRun run = small_run(num_devices);
  run.strategy.optimizer = OptimizerKind::Muon;
  run.strategy.sharding = sharding;
  return run;
}

Seconds of_layers(const TrainingRun& run, int layers = 8) {
  return orthogonalisation_time(run, {layers});
}

// 300 cubes of the width a block (newton_schulz_test.cpp), at 100 TFLOP/s but for what memory adds.
TEST(Orthogonalisation, TakesTheTimeOfItsGemms) {
  const double gemms = 8.0 * 300.0 * 1024.0 * 1024.0 * 1024.0 / 100e12;
  EXPECT_NEAR(of_layers(muon_run()).value(), gemms, 0.05 * gemms);
}

TEST(Orthogonalisation, OtherOptimizersAndAdaptersHaveNone) {
  EXPECT_EQ(of_layers(small_run()), Seconds(0.0));
  TrainingRun run = muon_run();
  run.strategy.adapters = Adapters{.rank = 8};
  EXPECT_EQ(of_layers(run), Seconds(0.0));
}

TEST(Orthogonalisation, EveryRankDoesAllWithoutSharding) {
  EXPECT_EQ(of_layers(muon_run(8)), of_layers(muon_run(1)));
}

TEST(Orthogonalisation, OneRankThatSharesWithNobodyDoesAll) {
  EXPECT_EQ(of_layers(muon_run(1, Sharding::Zero1)), of_layers(muon_run(1)));
}

// 32 square matrices and 16 others.
TEST(Orthogonalisation, RanksShareWholeMatrices) {
  EXPECT_DOUBLE_EQ(of_layers(muon_run(8, Sharding::Zero1)).value(),
                   of_layers(muon_run(1)).value() / 8.0);
}

// Of one block 6 matrices: up or down, 18 cubes a step, is the largest.
TEST(Orthogonalisation, RanksWithoutAMatrixWait) {
  const Seconds few = of_layers(muon_run(64, Sharding::Zero1), 1),
                block = of_layers(muon_run(1), 1);
  EXPECT_NEAR(few / block, 18.0 / 60.0, 0.01);
  EXPECT_EQ(few, of_layers(muon_run(128, Sharding::Zero1), 1));
}

// Chunks share out their matrices apart.
TEST(Orthogonalisation, ChunksAreSharedOutOneByOne) {
  TrainingRun run = muon_run(8, Sharding::Zero1);
  run.strategy.dp = 4, run.strategy.pp = 2;
  const EqualStages one(run.model, run.strategy, run.framework.low_precision);
  EXPECT_EQ(orthogonalisation_times(run, one).front(), of_layers(run, 4));
}

// Half of the work of Megatron's default, which every tensor rank does whole.
TEST(Orthogonalisation, TheStrategyChoosesWhatTensorRanksDo) {
  TrainingRun run = muon_run(2);
  run.strategy.dp = 1, run.strategy.tp = 2;
  const Seconds duplicated = of_layers(run);
  EXPECT_GT(duplicated, of_layers(muon_run(1)));  // it gathers besides
  run.strategy.muon_tp_mode = MuonTensorMode::Blockwise;
  const Seconds blockwise = of_layers(run);
  EXPECT_NEAR(blockwise / of_layers(muon_run(1)), 125.0 / 300.0, 0.02);
  run.strategy.muon_tp_mode = std::nullopt;
  run.framework.update.muon_tp_mode = MuonTensorMode::Blockwise;
  EXPECT_EQ(of_layers(run), blockwise);
}

// 8 blocks of 12 m^2 values over 8 ranks: owners compute longer than shards travel.  All-gathers of
// 2-byte values are waited for.
TEST(Orthogonalisation, ShardsTravelToTheirOwners) {
  TrainingRun run = muon_run(8, Sharding::Zero3);
  const Seconds shared = of_layers(muon_run(8, Sharding::Zero1));
  EXPECT_EQ(of_layers(run), shared);
  run.framework.update.gathers_momentum = true;
  const Bytes all(8.0 * 12.0 * 1024.0 * 1024.0 * gradient_wire_bytes(run));
  const Seconds gather =
      collective_time(CollectiveKind::AllGather, all, group_links(run, GroupKind::Shard));
  EXPECT_DOUBLE_EQ(of_layers(run).value(), (shared + 3.0 * gather).value());
}

// Experts have fewer ranks with the same ones: 8 over 4 expert ranks, a pair of ranks for each.
TEST(Orthogonalisation, ExpertsAreSharedByTheirOwnRanks) {
  TrainingRun run = muon_run(8, Sharding::Zero1);
  run.model = small_moe();
  run.strategy.ep = 4;
  TrainingRun all = run;
  all.strategy.ep = 1;
  EXPECT_NEAR(of_layers(run) / of_layers(all), 1.0, 1e-9);
  run.strategy.sharding = Sharding::None;
  TrainingRun alone = run;
  alone.strategy.ep = 1;
  EXPECT_LT(of_layers(run), of_layers(alone));
}

// The update of the longest stage, with what streams.
TEST(Orthogonalisation, IsPartOfTheUpdate) {
  const TrainingRun run = muon_run();
  TrainingRun momentum = run;
  momentum.strategy.optimizer = OptimizerKind::Momentum;
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const EqualStages stages(run.model, run.strategy, run.framework.low_precision);
  EXPECT_NEAR((longest_update(run, rank, stages) - longest_update(momentum, rank, stages)).value(),
              of_layers(run).value(), 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
