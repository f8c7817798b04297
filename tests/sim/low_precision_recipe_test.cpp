#include "sim/strategy/low_precision_recipe.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/cost/layer_prices.h"
#include "sim/memory/stage_bytes.h"
#include "sim/schedule/pass_operators.h"
#include "sim/schedule/passes.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr LowPrecisionRecipe kBlockwise{.scaling = LowPrecisionScaling::Blockwise};

TEST(LowPrecisionRecipe, FormatsBringTheirScales) {
  EXPECT_EQ(scaling_of(kBlockwise, Precision::Fp8), LowPrecisionScaling::Blockwise);
  EXPECT_EQ(scaling_of(kBlockwise, Precision::Mxfp8), LowPrecisionScaling::Mxfp8);
  EXPECT_EQ(scaling_of(kBlockwise, Precision::Nvfp4), LowPrecisionScaling::Nvfp4);
}

TEST(LowPrecisionRecipe, BytesOfAnElementWithItsScales) {
  EXPECT_DOUBLE_EQ(low_precision_bytes({}, Precision::Fp8, false), 1.0);  // one scale a tensor
  // 1 x 128.
  EXPECT_DOUBLE_EQ(low_precision_bytes(kBlockwise, Precision::Fp8, false), 1.0 + 4.0 / 128.0);
  // 128 x 128.
  EXPECT_DOUBLE_EQ(low_precision_bytes(kBlockwise, Precision::Fp8, true), 1.0 + 4.0 / 16384.0);
  // 1 x 32.
  EXPECT_DOUBLE_EQ(low_precision_bytes(kBlockwise, Precision::Mxfp8, true), 1.0 + 1.0 / 32.0);
  // 1 x 16.
  EXPECT_DOUBLE_EQ(low_precision_bytes(kBlockwise, Precision::Nvfp4, false), 0.5 + 1.0 / 16.0);
  // No low-precision format at all.
  EXPECT_DOUBLE_EQ(low_precision_bytes(kBlockwise, Precision::Bf16, false), 2.0);
}

TEST(LowPrecisionRecipe, OnlyTensorScalesLetOneCopyServeBothGemms) {
  const LowPrecisionRecipe any_layout{.scaling = LowPrecisionScaling::Current, .copies = 1.0};
  EXPECT_EQ(low_precision_copies(any_layout, Precision::Fp8), 1.0);
  EXPECT_EQ(low_precision_copies(any_layout, Precision::Mxfp8), 2.0);
}

TEST(LowPrecisionRecipe, BlockScalesNeedADeviceThatReadsThem) {
  Device hopper = ideal_device();
  hopper.matrix_peak[static_cast<std::size_t>(DType::Fp4)] = FlopsPerSecond(0.0);
  EXPECT_NO_THROW(require_recipe(hopper, kBlockwise, Precision::Fp8));
  EXPECT_NO_THROW(require_recipe(hopper, kBlockwise, Precision::Bf16));
  try {
    require_recipe(hopper, kBlockwise, Precision::Mxfp8);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("precision = mxfp8: ideal multiplies no factors with a scale for each 16 "
                        "or 32 elements"),
              std::string::npos);
    EXPECT_NE(text.find("fp32, tf32, fp16, bf16, fp8 (fp8 with"), std::string::npos);
  }
  hopper.block_scales = true;
  EXPECT_NO_THROW(require_recipe(hopper, kBlockwise, Precision::Mxfp8));
}

TEST(LowPrecisionRecipe, HighPrecisionBlocksAreTheFirstAndTheLast) {
  Transformer model = small_model();  // eight layers
  const LowPrecisionRecipe recipe{.high_precision_first = 2, .high_precision_last = 1};
  const auto wide = [&](int first, int blocks) {
    return high_precision_blocks(recipe, Precision::Fp8, model,
                                 {.blocks = blocks, .first_layer = first});
  };
  EXPECT_EQ(wide(0, 8), LayerCounts{3});
  EXPECT_EQ(wide(0, 4), LayerCounts{2});
  EXPECT_EQ(wide(1, 4), LayerCounts{1});
  EXPECT_EQ(wide(2, 5), LayerCounts{0});
  EXPECT_EQ(wide(4, 5), LayerCounts{1});  // layer 8 is one of multi-token prediction
  EXPECT_EQ(high_precision_blocks({.high_precision_first = 7, .high_precision_last = 7},
                                  Precision::Fp8, model, {.blocks = 8}),
            LayerCounts{8});
  EXPECT_EQ(high_precision_blocks(recipe, Precision::Bf16, model, {.blocks = 8}), LayerCounts{});
  model.moe = Moe{.num_experts = 8, .top_k = 2, .expert_ffn_size = 512, .num_dense_layers = 1};
  EXPECT_EQ(wide(0, 8), (LayerCounts{1, 2}));
}

// GEMMs in fp8 are twice as fast.
TrainingRun fp8_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.cluster.device.matrix_peak[static_cast<std::size_t>(DType::Fp8)] = 200.0 * TFLOPS;
  run.strategy.precision = Precision::Fp8;
  return run;
}

TEST(LowPrecisionRecipe, HighPrecisionBlocksArePricedIn16Bits) {
  TrainingRun run = fp8_run();
  run.strategy.precision = Precision::Bf16;
  const PassPrice wide = layer_prices(run).blocks[0].forward;
  run.strategy.precision = Precision::Fp8;
  const PassPrice low_precision = layer_prices(run).blocks[0].forward;
  // Two of eight.
  run.framework.low_precision.high_precision_first = 1,
  run.framework.low_precision.high_precision_last = 1;
  const auto mean = [&](const ModelChunk& part) {
    return mean_block(run, layer_prices(run), part).forward;
  };
  EXPECT_NEAR(
      mean({.blocks = 8, .of_kind = {8}}).gemm / (0.75 * low_precision.gemm + 0.25 * wide.gemm),
      1.0, 1e-12);
  EXPECT_NEAR(
      mean({.blocks = 2, .of_kind = {2}}).gemm / (0.5 * low_precision.gemm + 0.5 * wide.gemm), 1.0,
      1e-12);
  EXPECT_NEAR(mean({.blocks = 2, .of_kind = {2}, .first_layer = 2}).gemm / low_precision.gemm, 1.0,
              1e-12);
  run.framework.low_precision.high_precision_last = 7;
  EXPECT_NEAR(mean({.blocks = 8, .of_kind = {8}}).total() / wide.total(), 1.0, 1e-12);
}

// Of an MoE model behind one dense layer: both kinds by their own numbers.
TEST(LowPrecisionRecipe, HighPrecisionBlocksOfBothKindsArePricedByTheirNumbers) {
  TrainingRun run = fp8_run();
  run.model = small_moe();
  run.model.moe->num_dense_layers = 1;
  run.framework.low_precision.high_precision_first = 1,
  run.framework.low_precision.high_precision_last = 1;  // the dense one and one of seven MoE models
  const LayerPrices prices = layer_prices(run);
  const Seconds by_hand = prices.high_precision->blocks[0].forward.gemm +
                          6.0 * prices.blocks[1].forward.gemm +
                          prices.high_precision->blocks[1].forward.gemm;
  const ModelChunk whole{.blocks = 8, .of_kind = {1, 7}, .moe_blocks = 7};
  EXPECT_NEAR(8.0 * mean_block(run, prices, whole).forward.gemm / by_hand, 1.0, 1e-12);
}

// Four stages of two layers: the first and the last have one block in 16 bits each, which takes
// twice as long, the others none.
TEST(LowPrecisionRecipe, TheStageThatHasThemExecutesThem) {
  TrainingRun run = fp8_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4;
  run.framework.low_precision.high_precision_first = 1,
  run.framework.low_precision.high_precision_last = 1;
  const LayerPrices prices = layer_prices(run);
  const std::vector<ModelChunk> parts = model_chunks(run.model, run.strategy);
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const DataParallelCollectives exchange(run, rank);
  const auto forward = [&](std::size_t part) {
    return chunk_pass_times(run, prices, exchange, rank, parts[part]).forward[Term::ForwardGemm];
  };
  EXPECT_NEAR(forward(1) / (2.0 * prices.blocks[0].forward.gemm), 1.0, 1e-12);
  EXPECT_NEAR(
      forward(0) / (prices.blocks[0].forward.gemm + prices.high_precision->blocks[0].forward.gemm),
      1.0, 1e-12);
  EXPECT_GT(prices.high_precision->blocks[0].forward.gemm, 1.5 * prices.blocks[0].forward.gemm);
  // Operators one by one say the same, layer by layer.
  Seconds gemms;
  for (const PricedOperator& op :
       pass_operators(run, layers_with_operators(run), parts[3], PassKind::Forward)) {
    if (op.layer && op.kind == OperatorKind::Gemm) gemms += op.time;
  }
  EXPECT_NEAR(gemms / forward(3), 1.0, 1e-9);
}

Bytes weights_of(const TrainingRun& run) { return stage_bytes(run, StageContents(run), 0).weights; }

TEST(LowPrecisionRecipe, CachedWeightsStayBesideThe16BitOnesStoredOnesInTheirPlace) {
  TrainingRun run = small_run();
  run.cluster.device.block_scales = true;
  const Bytes wide = weights_of(run);
  const double low_precision = StageContents(run).rank().kinds[0].own * run.model.num_layers;
  run.strategy.precision = Precision::Fp8;
  EXPECT_EQ(weights_of(run), wide);  // quantised for each micro-batch, and gone
  run.framework.low_precision.caches_weights = true;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), 2.0 * low_precision);  // both layouts
  run.framework.low_precision.copies = 1.0;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), low_precision);
  run.framework.low_precision.stores_weights = true;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), -low_precision);
  run.strategy.precision = Precision::Mxfp8;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), low_precision / 16.0);  // 2 (1 + 1/32) - 2
}

// Four stages of two layers, of which only the first and the last of the model stay in 16 bits.
TEST(LowPrecisionRecipe, HighPrecisionBlocksHaveNoLowPrecisionWeightsWhereTheyAre) {
  TrainingRun run = fp8_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4;
  const auto weights = [&](int stage) {
    return stage_bytes(run, StageContents(run), stage).weights;
  };
  const Bytes first = weights(0), second = weights(1);
  run.framework.low_precision.caches_weights = true,
  run.framework.low_precision.high_precision_first = 1,
  run.framework.low_precision.high_precision_last = 1;
  const double block = StageContents(run).rank().kinds[0].own;
  EXPECT_DOUBLE_EQ((weights(0) - first).value(), 2.0 * block);  // both layouts of one block
  EXPECT_DOUBLE_EQ((weights(1) - second).value(), 2.0 * 2.0 * block);
}

TEST(LowPrecisionRecipe, ShardedWeightsAreQuantisedAsTheyAreGathered) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const Bytes wide = weights_of(run);
  run.strategy.precision = Precision::Fp8;
  run.framework.low_precision.caches_weights = true;
  EXPECT_EQ(weights_of(run), wide);
}

}  // namespace
}  // namespace llmsim::sim
