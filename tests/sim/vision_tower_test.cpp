// The tower for images: parameters, FLOPs, operators, memory, and what ranks divide.
#include "sim/operators/vision_tower.h"

#include "gtest/gtest.h"
#include "sim/base/error.h"
#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/model/parameters.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/operators/recomputation.h"
#include "sim/predict.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Four layers of width 256 over images of 64 patches, four to a token of the decoder.
TrainingRun seeing_run(int image_tokens = 128, int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.vision = VisionTower{.num_layers = 4,
                                 .hidden_size = 256,
                                 .num_heads = 4,
                                 .ffn_size = 1024,
                                 .patch_values = 588,
                                 .image_patches = 64,
                                 .merged_patches = 4,
                                 .projector_in = 1024,
                                 .projector_ffn = 512,
                                 .other_parameters = 1000,
                                 .image_tokens = image_tokens};
  return run;
}

LayerGraph embedding_of(const TrainingRun& run) {
  return lower_embedding(run.model, run.strategy, run.framework);
}

TEST(VisionTower, IsCountedWhereARunHasImages) {
  const TrainingRun run = seeing_run();
  // Norms with biases; q, k, v and the output; the MLP: with their biases.
  const std::int64_t block = 2 * 2 * 256 + 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256;
  const std::int64_t tower = 4 * block + 588 * 256 + 1024 * 512 + 512 * 1024 + 1000;
  EXPECT_EQ(vision_parameters(run.model), tower);
  EXPECT_EQ(parameters(run.model).vision, tower);
  EXPECT_EQ(parameters(run.model).total(), parameters(small_run().model).total() + tower);
  EXPECT_EQ(parameters(seeing_run(0).model).total(), parameters(small_run().model).total());
}

TEST(VisionTower, WithoutImagesIsNotThere) {
  const Prediction without = predict(small_run(8)), there = predict(seeing_run(0, 8));
  EXPECT_EQ(there.step_time, without.step_time);
  EXPECT_EQ(there.memory.peak, without.memory.peak);
}

// 128 tokens of images are 512 patches, which see the 64 of their image: products with the weights
// of four layers and of the patches, scores and sums over values, and the projectors.
TEST(VisionTower, OperatorsDoTheFlopsThatAreCounted) {
  const TrainingRun run = seeing_run();
  const double weights = 4.0 * (4 * 256 * 256 + 2 * 256 * 1024) + 588 * 256,
               attention = 4.0 * 2 * 2 * 256 * 64, projectors = 1024.0 * 512 + 512 * 1024;
  const double expected = 512 * (2 * weights + attention) + 128 * 2 * projectors;
  EXPECT_DOUBLE_EQ(vision_flops(run.model).value(), expected);
  const LayerGraph with = embedding_of(run), without = embedding_of(small_run());
  const double batch = run.strategy.micro_batch;
  EXPECT_NEAR(
      (total_flops(with.forward) - total_flops(without.forward)).value() / (batch * expected), 1.0,
      0.01);  // elementwise operators count too
  EXPECT_DOUBLE_EQ(gemm_flops(with.backward), 2.0 * gemm_flops(with.forward));
  const Flops more =
      training_flops_per_token(run.model, 0.0) - training_flops_per_token(small_run().model, 0.0);
  EXPECT_NEAR(more.value() * run.model.seq_len, 3.0 * expected, 1e-6 * expected);
}

TEST(VisionTower, ThatDoesNotLearnHasNoBackwardPassStatesOrSavedTensors) {
  TrainingRun run = seeing_run(128, 8);
  const Prediction learns = predict(run);
  run.model.vision->frozen = true;
  const LayerGraph frozen = embedding_of(run);
  EXPECT_EQ(gemm_flops(frozen.backward), 0.0);
  EXPECT_EQ(saved_bytes(frozen), saved_bytes(embedding_of(small_run(8))));
  const double tower = static_cast<double>(vision_parameters(run.model));
  const StageContents contents(run);
  EXPECT_DOUBLE_EQ(contents.held(0) - contents.trained(0), tower);
  const Prediction still = predict(run);
  EXPECT_LT(still.step_time, learns.step_time);
  EXPECT_LT(still.memory.peak, learns.memory.peak);
  EXPECT_NEAR(
      (training_flops_per_token(run.model, 0.0) - training_flops_per_token(small_run().model, 0.0))
              .value() *
          run.model.seq_len,
      vision_flops(run.model).value(), 1e-6 * vision_flops(run.model).value());
}

// Layers ahead embed the next tokens again, which are no images.
TEST(VisionTower, IsNoPartOfPredictionLayers) {
  TrainingRun run = seeing_run(), text = seeing_run(0);
  run.model.mtp_layers = text.model.mtp_layers = 1;
  const auto head = [](const TrainingRun& of) {
    return total_flops(lower_head(of.model, of.strategy, of.framework).forward);
  };
  EXPECT_EQ(head(run), head(text));
}

TEST(VisionTower, IsOnTheFirstStage) {
  TrainingRun run = seeing_run(128, 2);
  run.strategy.dp = 1, run.strategy.pp = 2;
  TrainingRun text = run;
  text.model.vision->image_tokens = 0;
  const StageContents sees(run), reads(text);
  EXPECT_DOUBLE_EQ(sees.held(0) - reads.held(0), static_cast<double>(vision_parameters(run.model)));
  EXPECT_EQ(sees.held(1), reads.held(1));
}

TEST(VisionTower, TensorRanksDivideLayersThatTheyCan) {
  TrainingRun run = seeing_run(128, 4);
  const double whole = rank_parameters(run.model, run.strategy).tower;
  run.strategy.tp = 4, run.strategy.dp = 1;
  const double block = 4.0 * 256 * 256 + 2.0 * 256 * 1024,
               column_biases = 3.0 * 256 + 1024;  // those of row-parallel layers are whole
  EXPECT_DOUBLE_EQ(rank_parameters(run.model, run.strategy).tower,
                   whole - 4 * 0.75 * (block + column_biases));
  EXPECT_LT(gemm_flops(embedding_of(run).forward), gemm_flops(embedding_of(seeing_run()).forward));
  run.model.vision->num_heads = 2;
  EXPECT_DOUBLE_EQ(rank_parameters(run.model, run.strategy).tower, whole);
}

TEST(VisionTower, ContextRanksShareOutTheImages) {
  TrainingRun run = seeing_run(128, 2);
  run.strategy.cp = 2, run.strategy.dp = 1;
  EXPECT_DOUBLE_EQ(gemm_flops(embedding_of(run).forward),
                   gemm_flops(embedding_of(seeing_run()).forward) / 2.0);
}

TEST(VisionTower, UnderFullRecomputationSavesInputsAndRunsAgain) {
  TrainingRun run = seeing_run();
  const LayerGraph saves = embedding_of(run);
  run.strategy.recompute.kind = RecomputeKind::Full;
  const LayerGraph again = embedding_of(run);
  EXPECT_LT(saved_bytes(again), saved_bytes(saves));
  EXPECT_GT(total_flops(again.backward), total_flops(saves.backward));
}

TEST(VisionTower, ImagesAreTokensOfTheSequence) {
  TrainingRun run = seeing_run();
  run.model.vision->image_tokens = run.model.seq_len + 1;
  EXPECT_THROW(run.model.validate(), Error);
}

}  // namespace
}  // namespace llmsim::sim
