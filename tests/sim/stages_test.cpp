#include "sim/strategy/stages.h"

#include <vector>

#include <gtest/gtest.h>

#include "sim/strategy/low_precision_recipe.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using enum PipelineSchedule;

std::vector<int> parts_of(const StageLayout& layout, int stage) {
  std::vector<int> parts;
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) parts.push_back(layout.place(stage, chunk));
  return parts;
}

TEST(StageLayout, ChunksFollowTheSchedule) {
  EXPECT_EQ(parts_of({.schedule = ZbH1, .stages = 4}, 1), (std::vector<int>{1}));
  EXPECT_EQ(parts_of({.schedule = Interleaved, .stages = 4, .virtual_stages = 2}, 1),
            (std::vector<int>{1, 5}));
  // Down 0 1 2 3 and up again 4 5 6 7.
  EXPECT_EQ(parts_of({.schedule = ZbV, .stages = 4, .virtual_stages = 2}, 0),
            (std::vector<int>{0, 7}));
  EXPECT_EQ(parts_of({.schedule = ZbV, .stages = 4, .virtual_stages = 2}, 3),
            (std::vector<int>{3, 4}));
  EXPECT_EQ(parts_of({.schedule = VHalf, .stages = 4, .virtual_stages = 2}, 1),
            (std::vector<int>{1, 6}));
  EXPECT_EQ(parts_of({.schedule = DualPipe, .stages = 4}, 0), (std::vector<int>{0, 3}));
  EXPECT_EQ(parts_of({.schedule = DualPipe, .stages = 4}, 2), (std::vector<int>{2, 1}));
}

TEST(StageLayout, DualPipeHoldsEveryPartTwice) {
  const StageLayout layout{.schedule = DualPipe, .stages = 6, .num_microbatches = 12};
  std::vector<int> held(6, 0);
  for (int stage = 0; stage < 6; ++stage) {
    for (const int part : parts_of(layout, stage)) ++held[static_cast<std::size_t>(part)];
  }
  EXPECT_EQ(layout.model_chunks(), 6);
  EXPECT_EQ(held, std::vector<int>(6, 2));
  EXPECT_EQ(layout.chunk_microbatches(), 6);
}

// Eight layers on two stages: the first has the first and the last quarter, and both ends of the
// model.
TEST(StageLayout, TheFirstStageOfAVHasBothEndsOfTheModel) {
  Strategy s;
  s.pp = s.virtual_stages = 2, s.pipeline_schedule = ZbV;
  const std::vector<ModelChunk> parts = stage_chunks(small_model(), s, 0);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].embedding && parts[1].head);
  EXPECT_EQ(parts[1].first_layer, 6);
}

std::vector<int> blocks_of(const std::vector<ModelChunk>& parts) {
  std::vector<int> blocks;
  blocks.reserve(parts.size());
  for (const ModelChunk& part : parts) blocks.push_back(part.blocks);
  return blocks;
}

TEST(Stages, LayersAreDealtEvenly) {
  Strategy s;
  s.pp = 4;
  const auto parts = model_chunks(small_model(), s);
  EXPECT_EQ(blocks_of(parts), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_TRUE(parts.front().embedding);
  EXPECT_TRUE(parts.back().head);
  EXPECT_FALSE(parts[1].embedding || parts[1].head);
}

TEST(Stages, EndsMeetWhereOneStageHasBoth) {
  Strategy s;
  EXPECT_FALSE(model_chunks(small_model(), s).back().meets_embedding);  // one part has both
  EXPECT_TRUE(model_chunks(small_model(), s).back().has_table());
  s.pp = 2;
  EXPECT_FALSE(model_chunks(small_model(), s).back().has_table());
  s.pipeline_schedule = PipelineSchedule::DualPipe;
  EXPECT_TRUE(model_chunks(small_model(), s).back().meets_embedding);
  EXPECT_FALSE(model_chunks(small_model(), s).front().meets_embedding);
}

TEST(Stages, ARemainderGoesToTheMiddle) {
  Strategy s;
  s.pp = 3;
  // 8 = 3 * 2 + 2.
  EXPECT_EQ(blocks_of(model_chunks(small_model(), s)), (std::vector<int>{3, 3, 2}));
}

TEST(Stages, EmbeddingAndHeadCanCountAsLayers) {
  // BLOOM: 70 layers and two ends over 12 stages are 6 each.
  Transformer model = small_model();
  model.num_layers = 70;
  Strategy s;
  s.pp = 12, s.embeddings_as_layers = true;
  EXPECT_EQ(blocks_of(model_chunks(model, s)),
            (std::vector<int>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
}

TEST(Stages, NoLayerIsLost) {
  for (int pp = 1; pp <= 8; ++pp) {
    for (const bool ends : {false, true}) {
      Strategy s;
      s.pp = pp, s.embeddings_as_layers = ends;
      int sum = 0;
      for (const int blocks : blocks_of(model_chunks(small_model(), s))) sum += blocks;
      EXPECT_EQ(sum, 8);
    }
  }
}

// Each block of GPT-2: two norms, qkv, attention output and two of the MLP, all with biases; two
// tables of embeddings count as one.
TEST(Stages, TensorsAreThoseOfTheBlocksAndTheEnds) {
  const Transformer gpt2 = find_model("gpt2")->model;
  Strategy s;
  EXPECT_EQ(parameter_tensors(gpt2, model_chunks(gpt2, s).front()), 12 * 12 + 1 + 2);
  // Without biases: two norms, qkv, output, gate and up as one, down; an untied head.
  const Transformer llama = find_model("llama-7b")->model;
  EXPECT_EQ(parameter_tensors(llama, model_chunks(llama, s).front()), 32 * 6 + 1 + 2 + 1);
  s.pp = 2;
  EXPECT_EQ(parameter_tensors(llama, model_chunks(llama, s).front()), 16 * 6 + 1);
}

std::vector<std::size_t> chunk_kinds(const EqualStages& stages) {
  std::vector<std::size_t> kinds;
  for (std::size_t place = 0; place < stages.chunks().size(); ++place)
    kinds.push_back(stages.chunk_kind(place));
  return kinds;
}

using Kinds = std::vector<std::size_t>;

// Eight layers on four stages: those in the middle differ in nothing but where they are.
TEST(EqualStages, AreThoseBetweenTheEnds) {
  Strategy s;
  s.pp = 4;
  const EqualStages stages(small_model(), s, {});
  EXPECT_EQ(chunk_kinds(stages), (Kinds{0, 1, 1, 2}));
  ASSERT_EQ(stages.kinds().size(), 3u);
  EXPECT_EQ(stages.kinds()[1].first, 1);
  EXPECT_EQ(stages.kinds()[1].last, 2);
  EXPECT_TRUE(stages.is_first_of_kind(1));
  EXPECT_FALSE(stages.is_first_of_kind(2));
  // Two chunks each: the first stage has the embedding and one without, the last one that and the
  // head.
  s.pp = s.virtual_stages = 2, s.pipeline_schedule = Interleaved;
  const EqualStages interleaved(small_model(), s, {});
  EXPECT_EQ(chunk_kinds(interleaved), (Kinds{0, 1, 1, 2}));
  EXPECT_EQ(interleaved.kinds().size(), 2u);
}

// As many layers of each kind are not the same layers: what is recomputed depends on their order.
TEST(EqualStages, HaveTheirLayersInTheSameOrder) {
  Transformer model = small_model();
  Strategy s;
  s.pp = 4;
  model.layer_pattern = "M*M*M*M*";
  EXPECT_EQ(chunk_kinds(EqualStages(model, s, {})), (Kinds{0, 1, 1, 2}));
  model.layer_pattern = "M*M**MM*";
  EXPECT_EQ(chunk_kinds(EqualStages(model, s, {})), (Kinds{0, 1, 2, 3}));
}

// Of an fp8 run whose first three and last layers stay in 16 bits: 2 and 1 of the first two chunks,
// 1 of the last.
TEST(EqualStages, HaveTheSameLayersInHighPrecision) {
  Strategy s;
  s.pp = 4, s.precision = Precision::Fp8;
  const LowPrecisionRecipe recipe{.high_precision_first = 3, .high_precision_last = 1};
  s.virtual_stages = 2, s.pp = 2, s.pipeline_schedule = Interleaved;
  EXPECT_EQ(chunk_kinds(EqualStages(small_model(), s, recipe)), (Kinds{0, 1, 2, 3}));
  s.precision = Precision::Bf16;
  EXPECT_EQ(chunk_kinds(EqualStages(small_model(), s, recipe)), (Kinds{0, 1, 1, 2}));
}

TEST(Stages, AStageHandsOnTheResidualStreamOfItsRank) {
  // 2 sequences of 1024 tokens x 1024 values in bf16.
  Strategy s;
  s.micro_batch = 2, s.tp = 4;
  EXPECT_EQ(stage_output(small_model(), s), Bytes(2.0 * 1024.0 * 1024.0 * 2.0));
  s.sequence_parallel = true;
  EXPECT_EQ(stage_output(small_model(), s), Bytes(1024.0 * 1024.0));
  s.cp = 2, s.precision = Precision::Fp32;
  // Half the tokens, twice the bytes.
  EXPECT_EQ(stage_output(small_model(), s), Bytes(1024.0 * 1024.0));
}

}  // namespace
}  // namespace llmsim::sim
