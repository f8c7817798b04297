#include "sim/memory/stage_bytes.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "sim/schedule/stage_order.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

StageBytes bytes_of(const TrainingRun& run, int stage) {
  const StageContents contents(run.model, run.strategy);
  return stage_bytes(run, layer_prices(run), contents, stage);
}

TEST(StageBytes, OnlyStagesOfAPipelineHaveItsBuffersAndOnlyTheLastHasLogits) {
  TrainingRun run = small_run(4);
  EXPECT_EQ(bytes_of(run, 0).pipeline_buffers, Bytes(0.0));
  run.strategy.dp = 1, run.strategy.pp = 4;
  // Received, to be sent, and a received gradient: 1024 tokens x 1024 values x 2 bytes each.
  EXPECT_EQ(bytes_of(run, 0).pipeline_buffers, Bytes(3.0 * 1024.0 * 1024.0 * 2.0));
  EXPECT_EQ(bytes_of(run, 0).logits, Bytes(0.0));
  // 1024 x 32768 logits in 2 + 4 + 4 bytes.
  EXPECT_EQ(bytes_of(run, 3).logits, Bytes(1024.0 * 32768.0 * 10.0));
}

TrainingRun interleaved(int stages, int chunks, int microbatches) {
  TrainingRun run = small_run(stages);
  run.strategy.dp = 1, run.strategy.pp = stages, run.strategy.virtual_stages = chunks;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  run.strategy.global_batch = microbatches;
  return run;
}

// Passes in flight through the first chunk of the first stage: what the stage holds more where the embedding keeps 1 byte.
double first_chunk_in_flight(const TrainingRun& run) {
  const StageContents contents(run.model, run.strategy);
  LayerPrices prices = layer_prices(run);
  prices.embedding.saved = Bytes(0.0);
  const Bytes without = stage_bytes(run, prices, contents, 0).activations;
  prices.embedding.saved = Bytes(1.0);
  return (stage_bytes(run, prices, contents, 0).activations - without).value();
}

// 2 stages of 2 chunks: F0 F1 of chunk 0, F0 F1 of chunk 1, F2 of chunk 0, then the first backward pass: 3 of 5 passes.  4 of 2:
// 4 of chunk 0, 4 of chunk 1, 2 of chunk 0 and one more before the first backward pass.  8 layers on 2 of 4: 2 + 2 + 2 + 2 + 1.
// Five micro-batches on two stages go in groups of 3 and 2: F0 F1 F2 of chunk 0, as many of chunk 1, and back.
TEST(StageBytes, TheEmbeddingKeepsAMaskForEachPassOfTheFirstChunkInFlight) {
  EXPECT_EQ(first_chunk_in_flight(interleaved(2, 2, 8)), 3.0);
  EXPECT_EQ(first_chunk_in_flight(interleaved(4, 2, 16)), 4.0 + 3.0);
  EXPECT_EQ(first_chunk_in_flight(interleaved(2, 4, 8)), 2.0 + 1.0);
  EXPECT_EQ(first_chunk_in_flight(interleaved(2, 2, 5)), 3.0);
  EXPECT_EQ(first_chunk_in_flight(interleaved(2, 2, 2)), 2.0);
}

// The same counted on the stage's order, while it holds most passes of all chunks.
TEST(StageBytes, PassesOfTheFirstChunkAreThoseOfTheOrder) {
  for (const int stages : {2, 4}) {
    for (const int chunks : {2, 4}) {
      if (stages * chunks > 8) continue;
      for (int microbatches = stages; microbatches <= 24; ++microbatches) {
        const TrainingRun run = interleaved(stages, chunks, microbatches);
        int now = 0, most = 0, first = 0, first_then = 0;
        for (const PipelinePass& pass : stage_order(pipeline_shape(run.strategy), 0)) {
          const int step = pass.backward() ? -1 : 1;
          now += step, first += pass.chunk == 0 ? step : 0;
          if (now > most) most = now, first_then = first;
        }
        EXPECT_EQ(first_chunk_in_flight(run), first_then) << stages << " stages of " << chunks << ", " << microbatches;
      }
    }
  }
}

TEST(StageBytes, FourBitWeightsAreThoseOfTheBlocks) {
  TrainingRun run = small_run();
  run.strategy.adapters = Adapters{.rank = 8};
  run.strategy.precision = Precision::Nf4;
  const StageContents contents(run.model, run.strategy);
  const double blocks = 8.0 * contents.rank().block, others = contents.held(0) - blocks;
  // Half a byte and a 64th of an fp32 scale; 16 bits for the ends and the adapters.
  EXPECT_NEAR(bytes_of(run, 0).weights.value(), blocks * (0.5 + 4.0 / 64.0) + (others + contents.trained(0)) * 2.0, 1.0);
}

TEST(StageBytes, OffloadedStatesLeaveTheDevice) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  EXPECT_GT(bytes_of(run, 0).master, Bytes(0.0));
  EXPECT_GT(bytes_of(run, 0).weights, Bytes(0.0));
  run.strategy.offload = {.optimizer = true, .parameters = true};
  const StageBytes left = bytes_of(run, 0);
  for (const Bytes gone : {left.weights, left.master, left.states, left.main_gradients, left.temporaries})
    EXPECT_EQ(gone, Bytes(0.0));
  EXPECT_EQ(left.gradients, left.gradient_buffers);  // of one block
}

TrainingRun moe_run(int devices) {
  TrainingRun run = small_run(devices);
  run.model = small_moe();
  return run;
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

TEST(StageBytes, MuonLeavesTheTablesToAdam) {
  TrainingRun run = small_run();
  run.strategy.optimizer = OptimizerKind::Muon;
  const StageContents contents(run.model, run.strategy);
  const double table = std::max(contents.rank().embedding, contents.rank().head);
  EXPECT_EQ(bytes_of(run, 0).states, Bytes(4.0 * (contents.held(0) + table)));
}

TEST(StageBytes, ARankThatUpdatesWholeMatricesHasAtLeastATable) {
  TrainingRun run = small_run(64);
  run.strategy.optimizer = OptimizerKind::Muon;
  run.strategy.sharding = Sharding::Zero1;
  run.framework.storage.master_bytes = 4.0;
  const StageContents contents(run.model, run.strategy);
  const double table = std::max(contents.rank().embedding, contents.rank().head);
  ASSERT_GT(table, contents.held(0) / 64.0);
  EXPECT_EQ(bytes_of(run, 0).master, Bytes(4.0 * table));
  EXPECT_EQ(bytes_of(run, 0).states, Bytes(8.0 * table));
}

}  // namespace
}  // namespace llmsim::sim
