// Towers for images and audio: parameters, FLOPs, operators, memory, and what ranks divide.
#include "sim/operators/tower.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "sim/base/error.h"
#include "sim/cost/layer_prices.h"
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
  run.model.vision = Tower{.num_layers = 4,
                           .hidden_size = 256,
                           .num_heads = 4,
                           .ffn_size = 1024,
                           .patch_embedding = "588x256",
                           .patches = 64,
                           .merged_patches = 4,
                           .projector = "1024x512 512xh",
                           .other_parameters = 1000,
                           .tokens = image_tokens};
  return run;
}

// Two layers of width 128 over clips of 32 frames, two to a token, behind two convolutions of three
// neighbours: of 80 values at twice the rate, and of their 128 channels.
TrainingRun hearing_run(int audio_tokens = 64, int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.audio = Tower{.num_layers = 2,
                          .hidden_size = 128,
                          .num_heads = 2,
                          .ffn_size = 512,
                          .patch_embedding = "2x240xh 384xh",
                          .patches = 32,
                          .merged_patches = 2,
                          .projector = "128xh",
                          .other_parameters = -256,
                          .tokens = audio_tokens};
  return run;
}

std::int64_t tower_of(const Transformer& model) {
  return tower_parameters(*model.vision, model.hidden_size);
}

LayerGraph embedding_of(const TrainingRun& run) {
  return lower_embedding(run.model, run.strategy, run.framework);
}

TEST(Towers, AreCountedWhereARunHasImages) {
  const TrainingRun run = seeing_run();
  // Norms with biases; q, k, v and the output; the MLP: with their biases.
  const std::int64_t block = 2 * 2 * 256 + 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256;
  const std::int64_t tower = 4 * block + 588 * 256 + 1024 * 512 + 512 * 1024 + 1000;
  EXPECT_EQ(tower_of(run.model), tower);
  EXPECT_EQ(parameters(run.model).towers, tower);
  EXPECT_EQ(parameters(run.model).total(), parameters(small_run().model).total() + tower);
  EXPECT_EQ(parameters(seeing_run(0).model).total(), parameters(small_run().model).total());
}

TEST(Towers, WithoutImagesAreNotThere) {
  const Prediction without = predict(small_run(8)), there = predict(seeing_run(0, 8));
  EXPECT_EQ(there.step_time, without.step_time);
  EXPECT_EQ(there.memory.peak, without.memory.peak);
}

// 128 tokens of images are 512 patches, which see the 64 of their image: products with the weights
// of four layers and of the patches, scores and sums over values, and the projectors.
TEST(Towers, OperatorsDoTheFlopsThatAreCounted) {
  const TrainingRun run = seeing_run();
  const double weights = 4.0 * (4 * 256 * 256 + 2 * 256 * 1024) + 588 * 256,
               attention = 4.0 * 2 * 2 * 256 * 64, projectors = 1024.0 * 512 + 512 * 1024;
  const double expected = 512 * (2 * weights + attention) + 128 * 2 * projectors;
  EXPECT_DOUBLE_EQ(running_tower_flops(run.model).value(), expected);
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

TEST(Towers, ThatDoNotLearnHaveNoBackwardPassStatesOrSavedTensors) {
  TrainingRun run = seeing_run(128, 8);
  const Prediction learns = predict(run);
  run.model.vision->frozen = true;
  const LayerGraph frozen = embedding_of(run);
  EXPECT_EQ(gemm_flops(frozen.backward), 0.0);
  EXPECT_EQ(saved_bytes(frozen), saved_bytes(embedding_of(small_run(8))));
  const double tower = static_cast<double>(tower_of(run.model));
  const StageContents contents(run);
  EXPECT_DOUBLE_EQ(contents.held(0) - contents.trained(0), tower);
  const Prediction still = predict(run);
  EXPECT_LT(still.step_time, learns.step_time);
  EXPECT_LT(still.memory.peak, learns.memory.peak);
  EXPECT_NEAR(
      (training_flops_per_token(run.model, 0.0) - training_flops_per_token(small_run().model, 0.0))
              .value() *
          run.model.seq_len,
      running_tower_flops(run.model).value(), 1e-6 * running_tower_flops(run.model).value());
}

// Layers ahead embed the next tokens again, which are no images.
TEST(Towers, AreNoPartOfPredictionLayers) {
  TrainingRun run = seeing_run(), text = seeing_run(0);
  run.model.mtp_layers = text.model.mtp_layers = 1;
  const auto head = [](const TrainingRun& of) {
    return total_flops(lower_head(of.model, of.strategy, of.framework).forward);
  };
  EXPECT_EQ(head(run), head(text));
}

TEST(Towers, AreOnTheFirstStage) {
  TrainingRun run = seeing_run(128, 2);
  run.strategy.dp = 1, run.strategy.pp = 2;
  TrainingRun text = run;
  text.model.vision->tokens = 0;
  const StageContents sees(run), reads(text);
  EXPECT_DOUBLE_EQ(sees.held(0) - reads.held(0), static_cast<double>(tower_of(run.model)));
  EXPECT_EQ(sees.held(1), reads.held(1));
}

TEST(Towers, TensorRanksDivideLayersThatTheyCan) {
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

TEST(Towers, ContextRanksShareOutTheImages) {
  TrainingRun run = seeing_run(128, 2);
  run.strategy.cp = 2, run.strategy.dp = 1;
  EXPECT_DOUBLE_EQ(gemm_flops(embedding_of(run).forward),
                   gemm_flops(embedding_of(seeing_run()).forward) / 2.0);
}

TEST(Towers, UnderFullRecomputationSaveInputsAndRunAgain) {
  TrainingRun run = seeing_run();
  const LayerGraph saves = embedding_of(run);
  run.strategy.recompute.kind = RecomputeKind::Full;
  const LayerGraph again = embedding_of(run);
  EXPECT_LT(saved_bytes(again), saved_bytes(saves));
  EXPECT_GT(total_flops(again.backward), total_flops(saves.backward));
}

TEST(Towers, ImagesAreTokensOfTheSequence) {
  TrainingRun run = seeing_run();
  run.model.vision->tokens = run.model.seq_len + 1;
  EXPECT_THROW(run.model.validate(), Error);
  run.model.vision->tokens = run.model.seq_len - 63;
  run.model.validate();
  run.model.audio = hearing_run().model.audio;
  EXPECT_THROW(run.model.validate(), Error);
}

// The first convolution makes two rows of a frame, and has its weights once.
TEST(Towers, OfAudioHaveConvolutionsAsGemms) {
  const TrainingRun run = hearing_run();
  const std::int64_t h = run.model.hidden_size;
  const std::int64_t block = 2 * 2 * 128 + 4 * (128 * 128 + 128) + 2 * 128 * 512 + 512 + 128;
  EXPECT_EQ(parameters(run.model).towers, 2 * block + 240 * 128 + 384 * 128 + 128 * h - 256);
  const double weights = 2.0 * (4 * 128 * 128 + 2 * 128 * 512) + 2 * 240 * 128 + 384 * 128,
               attention = 2.0 * 2 * 2 * 128 * 32;
  const double expected = 128 * (2 * weights + attention) + 64 * 2 * 128.0 * real(h);
  EXPECT_DOUBLE_EQ(running_tower_flops(run.model).value(), expected);
  const double batch = run.strategy.micro_batch;
  EXPECT_NEAR(gemm_flops(embedding_of(run).forward) / (batch * (expected - 128 * attention)), 1.0,
              1e-12);
}

TEST(Towers, OfImagesAndOfAudioAddUp) {
  TrainingRun both = seeing_run(128, 8);
  both.model.audio = hearing_run().model.audio;
  const TrainingRun text = small_run(8), sees = seeing_run(128, 8), hears = hearing_run(64, 8);
  EXPECT_EQ(parameters(both.model).towers,
            parameters(sees.model).towers + parameters(hears.model).towers);
  EXPECT_EQ(running_tower_flops(both.model),
            running_tower_flops(sees.model) + running_tower_flops(hears.model));
  const auto added = [&](const TrainingRun& run) {
    return (saved_bytes(embedding_of(run)) - saved_bytes(embedding_of(text))).value();
  };
  EXPECT_DOUBLE_EQ(added(both), added(sees) + added(hears));
  const auto time = [](const TrainingRun& run) { return predict(run).step_time.value(); };
  EXPECT_GT(time(both), time(sees));
  EXPECT_GT(time(both), time(hears));
  both.model.audio->frozen = true;
  const StageContents contents(both);
  EXPECT_DOUBLE_EQ(contents.held(0) - contents.trained(0), real(parameters(hears.model).towers));
}

TEST(Towers, GemmsAreRowsValuesReadAndValuesMade) {
  const std::vector<TowerGemm> gemms = tower_gemms("4x1280x6144 4x6144xh hxh", 512);
  ASSERT_EQ(gemms.size(), 3U);
  EXPECT_EQ(gemms[0].rows, 4);
  EXPECT_EQ(gemms[0].weights(), 1280 * 6144);
  EXPECT_EQ(gemms[1].out, 512);
  EXPECT_EQ(gemms[2].rows, 1);
  EXPECT_EQ(gemms[2].weights(), 512 * 512);
  for (const char* text : {"", "1024", "axb", "12x", "x12", "0x12", "1x2x3x4", "12x-3", "12x3x"})
    EXPECT_TRUE(tower_gemms(text, 512).empty()) << text;
}

TEST(Towers, TheLastGemmMakesWhatReadsIt) {
  const auto refuses = [](const char* embedding, const char* projector) {
    TrainingRun run = seeing_run();
    run.model.vision->patch_embedding = embedding;
    run.model.vision->projector = projector;
    EXPECT_THROW(run.model.validate(), Error) << embedding << ", " << projector;
  };
  seeing_run().model.validate();
  refuses("588x255", "1024xh");
  refuses("588x256", "1024x3");
  refuses("588", "1024xh");
}

// Of every four layers three see windows of 16 of 64 patches: products with weights are the same.
TEST(Towers, WindowsAreDocumentsOfSomeLayers) {
  TrainingRun run = seeing_run();
  const double whole = running_tower_flops(run.model).value(),
               scores = 512.0 * 2 * 2 * 256;  // of one layer, for each key
  const std::int64_t count = tower_of(run.model);
  run.model.vision->window = 16, run.model.vision->window_interval = 4;
  EXPECT_DOUBLE_EQ(running_tower_flops(run.model).value(), whole - 3 * scores * (64 - 16));
  EXPECT_EQ(tower_of(run.model), count);
  const double batch = run.strategy.micro_batch;
  EXPECT_DOUBLE_EQ(
      (total_flops(embedding_of(seeing_run()).forward) - total_flops(embedding_of(run).forward))
          .value(),
      batch * 3 * scores * (64 - 16));
  run.model.vision->window_interval = 1;
  EXPECT_DOUBLE_EQ(running_tower_flops(run.model).value(), whole - 4 * scores * (64 - 16));
  run.model.vision->window = 64;
  EXPECT_DOUBLE_EQ(running_tower_flops(run.model).value(), whole);
}

TEST(Towers, WithRotaryPositionsTurnQueriesAndKeys) {
  TrainingRun run = seeing_run();
  const auto turns = [&] {
    return std::ranges::count(embedding_of(run).forward, OperatorKind::Rotary, &Operator::kind);
  };
  EXPECT_EQ(turns(), 0);
  run.model.vision->rotary = true;
  EXPECT_EQ(turns(), 4);
}

// Prices of equal layers are those of one, as often as there are.
TEST(Towers, PricesAreThoseOfTheListedOperators) {
  TrainingRun run = seeing_run(128, 8);
  run.strategy.tp = 2, run.strategy.dp = 4, run.strategy.sequence_parallel = true;
  run.model.vision->window = 16, run.model.vision->window_interval = 4;
  for (const RecomputeKind recompute : {RecomputeKind::None, RecomputeKind::Full}) {
    run.strategy.recompute.kind = recompute;
    const BlockPrice once = layer_prices(run).embedding,
                     each = layers_with_operators(run).embedding;
    EXPECT_NEAR(once.forward.total() / each.forward.total(), 1.0, 1e-12);
    EXPECT_NEAR(once.backward.total() / each.backward.total(), 1.0, 1e-12);
    EXPECT_NEAR(once.backward.flops / each.backward.flops, 1.0, 1e-12);
    EXPECT_NEAR(once.forward.launches.kernels, each.forward.launches.kernels, 1e-9);
    EXPECT_NEAR(once.weight_inputs / each.weight_inputs, 1.0, 1e-12);
  }
}

// N of the conventions are the decoder's, whatever a tower has.
TEST(Towers, CountInNoConventionButThoseOfTheirOwnTokens) {
  const TrainingRun sees = seeing_run(), text = small_run();
  const StepWork work{.tokens = 1000.0,
                      .model = 1 * TFLOP,
                      .hardware = 1 * TFLOP,
                      .step_time = 1.0 * us,
                      .peak = 1 * TFLOPS};
  const std::vector<Convention> one = conventions(sees.model, work),
                                other = conventions(text.model, work);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_EQ(one[i].flops_per_step, other[i].flops_per_step) << one[i].name;
}

}  // namespace
}  // namespace llmsim::sim
