#include "sim/memory/stage_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/share.h"
#include "tests/sim/random_run.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

StageBytes bytes_of(const TrainingRun& run, int stage) {
  const StageContents contents(run);
  return stage_bytes(run, contents, stage);
}

TEST(StageBytes, FourBitWeightsAreThoseOfTheBlocks) {
  TrainingRun run = small_run();
  run.strategy.adapters = Adapters{.rank = 8};
  run.strategy.precision = Precision::Nf4;
  const StageContents contents(run);
  const double blocks = 8.0 * contents.rank().kinds[0].own, others = contents.held(0) - blocks;
  // Half a byte and a 64th of an fp32 scale; 16 bits for the ends and the adapters.
  EXPECT_NEAR(bytes_of(run, 0).weights.value(),
              blocks * (0.5 + 4.0 / 64.0) + (others + contents.trained(0)) * 2.0, 1.0);
}

TEST(StageBytes, OffloadedStatesLeaveTheDevice) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  EXPECT_GT(bytes_of(run, 0).master, Bytes(0.0));
  EXPECT_GT(bytes_of(run, 0).weights, Bytes(0.0));
  run.strategy.offload = {.optimizer = true, .parameters = true};
  const StageBytes left = bytes_of(run, 0);
  for (const Bytes gone :
       {left.weights, left.master, left.states, left.main_gradients, left.temporaries})
    EXPECT_EQ(gone, Bytes(0.0));
  EXPECT_EQ(left.gradients, left.gradient_buffers);  // of one block
}

// 8 ranks own an eighth of the parameters each, of which 1000 are updated at a time.
TEST(StageBytes, TemporariesOfAnUpdateInGroupsAreThoseOfOneGroup) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  run.framework.update.temporary_bytes = 6.0;
  const double owned = bytes_of(run, 0).master.value() / run.framework.storage.master_bytes;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).temporaries.value(), 6.0 * owned);
  run.framework.update.parameters_at_once = 1000.0;
  EXPECT_EQ(bytes_of(run, 0).temporaries, Bytes(6000.0));
  run.framework.update.parameters_at_once = 1e12;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).temporaries.value(), 6.0 * owned);
}

// Whole weights at hand: of two blocks and, beside them or in their place, of the larger end.
TEST(StageBytes, EndsThatAreFreedDoNotStandBesideTheBlocks) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const RankParameters rank = StageContents(run).rank();
  const double blocks = 2.0 * rank.largest_block(), end = std::max(rank.embedding, rank.head);
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).gathered.value(), 2.0 * (blocks + end));
  run.framework.sharded.root_stays_gathered = false;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).gathered.value(), 2.0 * std::max(blocks, end));
}

TrainingRun moe_run(int devices) {
  TrainingRun run = small_run(devices);
  run.model = small_moe();
  return run;
}

// Expert ranks that are all data ranks: each has experts of its own, which nobody gathers.
TEST(StageBytes, ExpertsOfOneRankAreNotGathered) {
  TrainingRun run = moe_run(8);
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.ep = 4;
  const auto gathered = [&](bool with_experts) {
    const RankParameters rank = StageContents(run).rank();
    return 2.0 * (2.0 * rank.largest_block(with_experts) + std::max(rank.embedding, rank.head));
  };
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).gathered.value(), gathered(true));
  run.strategy.ep = 8;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).gathered.value(), gathered(false));
  EXPECT_LT(gathered(false), gathered(true));
  // Weights that stay gathered are those of the whole stage.
  run.framework.sharded.regathers_in_backward = false;
  const RankParameters rank = StageContents(run).rank();
  const double experts =
      run.model.num_layers * (rank.largest_block(true) - rank.largest_block(false));
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).gathered.value(), 2.0 * (StageContents(run).held(0) - experts));
}

// ZeRO-Offload frees gradients as they come; elsewhere they wait on the device for the host.
TEST(StageBytes, GradientsOfAnOffloadedOptimizerMayStayOnTheDevice) {
  TrainingRun run = small_run();
  run.framework.storage.main_gradient_bytes = 4.0;
  const Bytes gradients = bytes_of(run, 0).gradients, main = bytes_of(run, 0).main_gradients;
  EXPECT_GT(main, Bytes(0.0));
  run.strategy.offload.optimizer = true;
  EXPECT_EQ(bytes_of(run, 0).main_gradients, Bytes(0.0));
  run.framework.gradients.offloaded = false;
  EXPECT_EQ(bytes_of(run, 0).main_gradients, main);
  EXPECT_EQ(bytes_of(run, 0).gradients, gradients);
  EXPECT_EQ(bytes_of(run, 0).states, Bytes(0.0));
}

// All weights of a stage in 16 bits, and its gradients as wide as they are reduced.
TEST(StageBytes, UnitsThatStayThroughTheStepAreThoseOfTheStage) {
  TrainingRun run = small_run(16);
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.pp = 2, run.strategy.dp = 8;
  run.strategy.global_batch = 8 * 8 * run.strategy.micro_batch;
  run.framework.sharded.whole_in_pipelines = true;
  run.framework.gradients.reduced_in_fp32 = true;
  const StageContents contents(run);
  for (int stage = 0; stage < 2; ++stage) {
    const StageBytes bytes = bytes_of(run, stage);
    EXPECT_EQ(bytes.gathered.value(), 2.0 * contents.held(stage));
    EXPECT_EQ(bytes.unreduced_gradients.value(), 4.0 * contents.trained(stage));
    EXPECT_EQ(bytes.gradient_buffers, bytes.unreduced_gradients / 4.0);  // of a block
  }
  run.strategy.global_batch = 2 * 8 * run.strategy.micro_batch;
  EXPECT_GT(bytes_of(run, 0).unreduced_gradients, Bytes(0.0));
  // With one micro-batch there is nothing to add to.
  run.strategy.global_batch = 8 * run.strategy.micro_batch;
  EXPECT_EQ(bytes_of(run, 0).unreduced_gradients, Bytes(0.0));
}

// Two units of two blocks each, of eight.
TEST(StageBytes, UnitsOfSeveralBlocksAreGatheredWhole) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const double block = StageContents(run).rank().largest_block();
  const Bytes one = bytes_of(run, 0).gathered;
  run.framework.sharded.unit_blocks = 2.0;
  EXPECT_DOUBLE_EQ((bytes_of(run, 0).gathered - one).value(), 2.0 * 2.0 * block);
}

// Queries, keys and values are 3 h of h, the attention's output h, the MLP 4 h up and 4 h down.
TEST(StageBytes, GemmsThatAccumulateGiveAnEmptyGradientOfEachShape) {
  TrainingRun run = small_run();
  run.framework.reserve.transformer_engine = true;
  run.framework.gradients.accumulated_by_gemm = true;
  const Bytes without = bytes_of(run, 0).workspaces;
  run.framework.reserve.dummy_weight_gradients = true;
  EXPECT_EQ(bytes_of(run, 0).workspaces - without,
            Bytes(2.0 * (3.0 + 1.0 + 4.0 + 4.0) * kHidden * kHidden));
}

// The runtime's own: ids and targets of eight sequences, 8 bytes each, a mask of 1024 x 1024 flags
// and, with rotary positions, their angles in 16 bits.
TEST(StageBytes, TheRuntimeAllocatesTheInputsOfAStepOnce) {
  TrainingRun run = small_run();
  EXPECT_EQ(bytes_of(run, 0).buffers, Bytes(0.0));
  run.framework.autograd = false;
  run.strategy.flash_attention = false;
  const Bytes tokens(2.0 * 8.0 * 8.0 * kTokens), mask(kTokens * kTokens);
  EXPECT_EQ(bytes_of(run, 0).buffers, tokens + mask);
  run.model.position = Position::Rope;
  EXPECT_EQ(bytes_of(run, 0).buffers, tokens + mask + Bytes(kTokens * 128.0 * 2.0));
}

TEST(StageBytes, GemmsOfExpertsHaveAWorkspaceForEachStream) {
  TrainingRun run = moe_run(1);
  run.framework.reserve.matmul_workspaces = 0;
  EXPECT_EQ(bytes_of(run, 0).workspaces, Bytes(0.0));
  run.framework.reserve.grouped_gemm_streams = 4;
  EXPECT_EQ(bytes_of(run, 0).workspaces, 4.0 * 4.0 * MiB);
  run.cluster.device.matmul_workspace = 32.0 * MiB;
  EXPECT_EQ(bytes_of(run, 0).workspaces, 4.0 * 32.0 * MiB);
  run.model.moe.reset();
  EXPECT_EQ(bytes_of(run, 0).workspaces, Bytes(0.0));
}

TEST(StageBytes, TokensOfAllExpertRanksAreGatheredIntoOneBuffer) {
  TrainingRun run = moe_run(4);
  run.strategy.ep = 4;
  EXPECT_EQ(bytes_of(run, 0).dispatch_buffers, Bytes(0.0));
  run.strategy.moe_dispatch = ExpertDispatch::AllGather;
  // 1024 tokens of each of four ranks, 1024 values of 2 bytes each.
  EXPECT_EQ(bytes_of(run, 0).dispatch_buffers, Bytes(4.0 * 1024.0 * 1024.0 * 2.0));
  run.strategy.ep = 1;
  EXPECT_EQ(bytes_of(run, 0).dispatch_buffers, Bytes(0.0));
}

// 12 h^2 values of each block are matrices: the others have a second state.
TEST(StageBytes, MuonLeavesTheTablesToAdam) {
  TrainingRun run = small_run();
  run.strategy.optimizer = OptimizerKind::Muon;
  const StageContents contents(run);
  const double all = contents.held(0), matrices = 8.0 * 12.0 * kHidden * kHidden;
  EXPECT_EQ(bytes_of(run, 0).states, Bytes(4.0 * matrices + 8.0 * (all - matrices)));
}

// Of 48 matrices on 64 ranks one of (h, 4 h); the rest is divided evenly, under ZeRO-3 all.
TEST(StageBytes, ARankHasWholeMatricesOfMuon) {
  TrainingRun run = small_run(64);
  run.strategy.optimizer = OptimizerKind::Muon;
  run.strategy.sharding = Sharding::Zero1;
  run.framework.storage.master_bytes = 4.0;
  const StageContents contents(run);
  const double all = contents.held(0), matrices = 8.0 * 12.0 * kHidden * kHidden,
               rest = (all - matrices) / 64.0, largest = 4.0 * kHidden * kHidden;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).master.value(), 4.0 * (largest + rest));
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).states.value(), 4.0 * largest + 8.0 * rest);
  run.strategy.sharding = Sharding::Zero3;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).master.value(), 4.0 * all / 64.0);
}

TEST(StageBytes, ARankMayHaveAWholeTableBesidesItsMatrices) {
  TrainingRun run = small_run(64);
  run.strategy.optimizer = OptimizerKind::Muon;
  run.strategy.sharding = Sharding::Zero1;
  run.framework.update.whole_tables = true;
  const StageContents contents(run);
  const double table = std::max(contents.rank().embedding, contents.rank().head),
               largest = 4.0 * kHidden * kHidden;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).states.value(), 4.0 * largest + 8.0 * table);
}

// Result and scaled update of the largest matrix, whole where tensor ranks gather it.
TEST(StageBytes, MuonHasOneMatrixAtHand) {
  TrainingRun run = small_run(2);
  run.strategy.dp = 1, run.strategy.tp = 2;
  const double momentum = bytes_of(run, 0).temporaries.value(), largest = 4.0 * kHidden * kHidden;
  run.strategy.optimizer = OptimizerKind::Muon;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).temporaries.value() - momentum, 16.0 * largest);
  run.strategy.muon_tp_mode = MuonTensorMode::Blockwise;
  EXPECT_DOUBLE_EQ(bytes_of(run, 0).temporaries.value() - momentum, 8.0 * largest / 2.0);
}

// What lasts, the gradients, what is gathered and what the update takes.
std::vector<Bytes> bounded(const StageBytes& bytes, const Framework& framework) {
  return {lasting_terms(bytes, framework).total(), bytes.gradients, bytes.gathered,
          bytes.unreduced_gradients, bytes.main_gradients + bytes.temporaries};
}

// Whatever a stage holds, it has no fewer bytes than all stages with as many parameters have, nor
// than those with half of them.
TEST(StageBytes, AreNoLessThanThoseOfAllStagesWithAsManyParameters) {
  for (unsigned seed = 0; seed < share_of(3000); ++seed) {
    const std::optional<TrainingRun> run = random_run(seed);
    if (!run) continue;
    SCOPED_TRACE(seed);
    const StageContents contents(*run);
    for (int stage = 0; stage < run->strategy.pp; ++stage) {
      const double apart = contents.divided_experts(stage);
      const StageParameters held{contents.held(stage) - apart, apart};
      const auto exact = bounded(stage_bytes(*run, contents, stage), run->framework);
      for (const double share : {1.0, 0.5}) {
        const auto least =
            bounded(least_stage_bytes(*run, contents.rank(), share * held), run->framework);
        for (std::size_t i = 0; i < exact.size(); ++i)
          ASSERT_LE(least[i].value(), (1.0 + 1e-12) * exact[i].value()) << i;
      }
    }
  }
}

}  // namespace
}  // namespace llmsim::sim
