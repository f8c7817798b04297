#include "sim/memory/chunk_layers.h"

#include <gtest/gtest.h>

#include "sim/cost/layer_prices.h"
#include "sim/memory/shared_chunks.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

ChunkLayers layers_of_stage(const TrainingRun& run) {
  static LayerPrices prices;  // the layers point to their memory
  prices = layer_bytes(run);
  const StageContents contents(run);
  return chunk_layers(run, prices, contents.rank(), contents.chunk(0, 0));
}

// Eight ranks whose blocks are flat units.
TrainingRun sharded_run() {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  run.framework.sharded.flat_units = true;
  run.framework.sharded.root_stays_gathered = false;
  return run;
}

// Of a block: whole weights in the 16 bits of the GEMMs, whole gradients as they are
// stored; a shard is cast before it is sent where it is stored in fp32.
TEST(ChunkLayers, ShardsInFp32AreSentInSixteenBits) {
  TrainingRun run = sharded_run();
  run.framework.storage = {.weight_bytes = 2.0, .gradient_bytes = 4.0};
  const double parameters = StageContents(run).rank().kinds[0].own;  // 8 divides it
  const Unit kept = layers_of_stage(run)[1].units.shared;
  EXPECT_EQ(kept.whole, Bytes(2.0 * parameters));
  EXPECT_EQ(kept.sent, Bytes(0.0));
  EXPECT_EQ(kept.gradients, Bytes(4.0 * parameters));
  run.framework.storage.weight_bytes = 4.0;
  const Unit cast = layers_of_stage(run)[1].units.shared;
  EXPECT_EQ(cast.whole, Bytes(2.0 * parameters));
  EXPECT_EQ(cast.sent, Bytes(2.0 * parameters / 8.0));
}

TEST(ChunkLayers, OnlyBlocksWithExpertsOfTheirOwnRanksDivideThem) {
  TrainingRun run = sharded_run();
  EXPECT_FALSE(layers_of_stage(run)[1].divides_experts);
  run.model = small_moe();
  run.strategy.ep = 4;
  EXPECT_TRUE(layers_of_stage(run)[1].divides_experts);
}

TEST(ChunkLayers, TheLastBlocksKeepWhatTheFirstOffload) {
  TrainingRun run = small_run();
  run.strategy.offload.activations = true;
  run.strategy.offload.blocks = 6;
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const ChunkLayers layers = layers_of_stage(run);
  for (int block = 0; block < 8; ++block)
    EXPECT_EQ(layers[1 + block].stored_less > Bytes(0.0), block < 6) << block;
}

// One of the eight blocks in two chunks is half of the first block of each.
TEST(ChunkLayers, AShareOfABlockOffloadsThatShare) {
  TrainingRun run = small_run();
  run.strategy.offload.activations = true;
  run.strategy.offload.blocks = 4;
  const ChunkLayers whole = layers_of_stage(run);
  run.strategy.virtual_stages = 2;
  run.strategy.offload.blocks = 1;
  const ChunkLayers half = layers_of_stage(run);
  EXPECT_DOUBLE_EQ(half[1].stored_less.value(), 0.5 * whole[1].stored_less.value());
  EXPECT_EQ(half[2].stored_less, Bytes(0.0));
}

TEST(SharedChunks, WeightGradientsThatWaitHaveInputs) {
  TrainingRun run = small_run(2);
  run.strategy.pp = 2, run.strategy.dp = 1;
  const auto inputs = [&](PipelineSchedule schedule) {
    run.strategy.pipeline_schedule = schedule;
    const LayerPrices prices = layer_bytes(run);
    const StageContents contents(run);
    SharedChunks chunks(run, contents.rank());
    return chunks.of(prices, contents.chunk(0, 0)).weight_inputs();
  };
  for (const PipelineSchedule schedule : {PipelineSchedule::ZbH1, PipelineSchedule::ZbV,
                                          PipelineSchedule::VHalf, PipelineSchedule::DualPipe})
    EXPECT_GT(inputs(schedule), Bytes(0.0)) << name_of(schedule);
  EXPECT_EQ(inputs(PipelineSchedule::OneForwardOneBackward), Bytes(0.0));
}

}  // namespace
}  // namespace llmsim::sim
