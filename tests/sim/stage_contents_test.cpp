#include "sim/memory/shards.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Eight blocks on two stages of two chunks: blocks 0-1 and 4-5 on the first, 2-3 and 6-7 on the
// second.
Strategy interleaved() {
  Strategy strategy;
  strategy.pp = 2, strategy.virtual_stages = 2;
  strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  strategy.global_batch = 8;
  return strategy;
}

TrainingRun run_of(const Transformer& model, const Strategy& strategy) {
  TrainingRun run = small_run();
  run.model = model, run.strategy = strategy;
  return run;
}

TEST(StageContents, AStageHasEveryChunkOfItsOwn) {
  const TrainingRun run = run_of(small_model(), interleaved());
  const StageContents contents(run);
  EXPECT_EQ(contents.chunk(0, 0), (ModelChunk{.blocks = 2, .embedding = true, .of_kind = {2}}));
  EXPECT_EQ(contents.chunk(0, 1), (ModelChunk{.blocks = 2, .of_kind = {2}}));
  EXPECT_EQ(contents.chunk(1, 1), (ModelChunk{.blocks = 2, .head = true, .of_kind = {2}}));
  EXPECT_EQ(contents.blocks(0), 4);
  const RankParameters& rank = contents.rank();
  EXPECT_DOUBLE_EQ(contents.held(0), 4.0 * rank.kinds[0].own + rank.embedding);
  EXPECT_DOUBLE_EQ(contents.held(1), 4.0 * rank.kinds[0].own + rank.head);
}

TEST(StageContents, StagesOfAnUntiedModelHoldItOnce) {
  Transformer model = small_model();
  model.tied_embeddings = false;
  const TrainingRun run = run_of(model, interleaved());
  const StageContents contents(run);
  EXPECT_DOUBLE_EQ(contents.held(0) + contents.held(1),
                   static_cast<double>(parameters(model).total()));
}

// A tied table is held once where a stage has both ends: of a V once in all, of a DualPipe by the
// first and by the last stage.
TEST(StageContents, ATiedTableIsHeldOnceOnAStage) {
  Transformer model = small_model();
  model.tied_embeddings = true;
  const auto total = static_cast<double>(parameters(model).total());
  const auto held = [&](PipelineSchedule schedule, int virtual_stages) {
    Strategy strategy = interleaved();
    strategy.pipeline_schedule = schedule, strategy.virtual_stages = virtual_stages;
    const TrainingRun run = run_of(model, strategy);
    const StageContents contents(run);
    return contents.held(0) + contents.held(1);
  };
  EXPECT_DOUBLE_EQ(held(PipelineSchedule::ZbV, 2), total);
  EXPECT_DOUBLE_EQ(held(PipelineSchedule::DualPipe, 1), 2.0 * total);
  EXPECT_DOUBLE_EQ(held(PipelineSchedule::Interleaved, 2), total + 32768.0 * 1024.0);
}

TEST(StageContents, PassesInFlightFollowTheSchedule) {
  Strategy strategy = interleaved();
  const auto in_flight = [&](int stage) {
    return StageContents(run_of(small_model(), strategy)).chunks_in_flight(stage);
  };
  // Warm-up of 2 (stages - stage - 1) + (chunks - 1) stages = 4 and 2 passes, and the one that
  // follows it.
  EXPECT_EQ(in_flight(0), 5);
  EXPECT_EQ(in_flight(1), 3);
  strategy.virtual_stages = 1, strategy.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
  EXPECT_EQ(in_flight(0), 2);
  EXPECT_EQ(in_flight(1), 1);
  strategy.pipeline_schedule = PipelineSchedule::GPipe;
  EXPECT_EQ(in_flight(1), 8);
}

// Width 64, 4 heads of 16, an MLP of 128, vocabulary 96.
Transformer two_layer_model() {
  Transformer model;
  model.num_layers = 2;
  model.hidden_size = 64;
  model.num_heads = model.num_kv_heads = 4;
  model.head_dim = 16;
  model.ffn_size = 128;
  model.vocab_size = 96;
  return model;
}

Strategy on_shards(int shards) {
  Strategy strategy;
  strategy.tp = 2;
  strategy.sequence_parallel = true;
  strategy.dp = shards;
  strategy.sharding = Sharding::Zero3;
  return strategy;
}

const std::vector<ModelChunk> kBlocks{{.blocks = 2, .of_kind = {2}}};
const std::vector<ModelChunk> kBlocksAndHead{{.blocks = 1, .head = true, .of_kind = {1}}};

// A block without biases on one of two tensor ranks: norm 64, qkv (32 + 2 * 32) * 64 = 6144 and
// projection 32 * 64 = 2048, norm 64, gate, up and down 3 * 64 * 64 = 12288: the second norm begins
// at 8256 of 20608.
TEST(PartialGradients, LieWhereTheNormsAre) {
  Transformer model = two_layer_model();
  model.gated_mlp = true;
  model.norm = Norm::RmsNorm;
  // Two shards of 10304 each.
  EXPECT_EQ(partial_gradients(model, on_shards(2), kBlocks, 0), 2 * 128);
  EXPECT_EQ(partial_gradients(model, on_shards(2), kBlocks, 1), 0);
  // Three of 6870: 64, the other 64, none.
  EXPECT_EQ(partial_gradients(model, on_shards(3), kBlocks, 1), 2 * 64);
  EXPECT_EQ(partial_gradients(model, on_shards(3), kBlocks, 2), 0);
  // The head has the final norm, 64, before its 48 * 64 weights.
  EXPECT_EQ(partial_gradients(model, on_shards(2), kBlocksAndHead, 0), 128 + 64);
}

// With biases the output projection's and the MLP's are among them, and the last values of a block
// are.
TEST(PartialGradients, AreAllOnSomeShard) {
  Transformer model = two_layer_model();
  model.bias = Biases::gpt();
  const Strategy whole = on_shards(1);
  const double all = partial_gradients(model, whole, kBlocksAndHead, 0);
  EXPECT_EQ(all, (2 * 128 + 2 * 64) + 128);  // two norms and two biases; the final norm
  for (const int shards : {2, 3, 5, 8}) {
    double sum = 0.0;
    for (int shard = 0; shard < shards; ++shard)
      sum += partial_gradients(model, on_shards(shards), kBlocksAndHead, shard);
    EXPECT_EQ(sum, all) << shards;
    EXPECT_GT(partial_gradients(model, on_shards(shards), kBlocksAndHead, shards - 1), 0.0)
        << shards;
  }
}

}  // namespace
}  // namespace llmsim::sim
