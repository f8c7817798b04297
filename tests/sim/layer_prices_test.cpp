#include "sim/cost/layer_prices.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(LayerPrices, KernelsThatTheMatrixLibraryPicksSlowGemmsOnly) {
  TrainingRun run = small_run();
  const PassPrice tuned = layer_prices(run).blocks[0].forward;
  run.framework.gemm_efficiency = 0.5;
  const PassPrice picked = layer_prices(run).blocks[0].forward;
  EXPECT_NEAR(picked.gemm / tuned.gemm, 2.0, 1e-12);
  EXPECT_EQ(picked.attention, tuned.attention);
  EXPECT_EQ(picked.memory_bound, tuned.memory_bound);
}

TEST(LayerPrices, ScalesOfARecipeSlowLowPrecisionGemmsOnly) {
  TrainingRun run = small_run();
  run.framework.low_precision.gemm_efficiency = 0.5;
  const PassPrice wide = layer_prices(run).blocks[0].forward;
  run.framework.low_precision.gemm_efficiency = 1.0;
  EXPECT_EQ(wide.gemm, layer_prices(run).blocks[0].forward.gemm);
  run.strategy.precision = Precision::Fp8;
  const PassPrice low_precision = layer_prices(run).blocks[0].forward;
  run.framework.low_precision.gemm_efficiency = 0.5;
  EXPECT_NEAR(layer_prices(run).blocks[0].forward.gemm / low_precision.gemm, 2.0, 1e-12);
}

TEST(LayerPrices, AFrameworkThatSlowsTheDeviceSlowsGemmsAndAttention) {
  TrainingRun run = small_run();
  const PassPrice alone = layer_prices(run).blocks[0].forward;
  run.framework.efficiency = 0.8;
  const PassPrice within = layer_prices(run).blocks[0].forward;
  EXPECT_NEAR(within.gemm / alone.gemm, 1.25, 1e-12);
  EXPECT_NEAR(within.attention / alone.attention, 1.25, 1e-12);
}

// Half of the layers see all 1024 tokens, half a window of 128.
TEST(LayerPrices, ABlockIsTheMeanOfWindowedAndFullLayers) {
  TrainingRun run = small_run();
  run.strategy.recompute = {RecomputeKind::Full};
  const BlockPrice full = layer_prices(run).blocks[0];
  run.model.sliding_window = 128;
  const BlockPrice windowed = layer_prices(run).blocks[0];
  run.model.sliding_window_interval = 2;
  const BlockPrice mixed = layer_prices(run).blocks[0];
  EXPECT_LT(windowed.forward.attention, full.forward.attention);
  for (const auto pass : {&BlockPrice::forward, &BlockPrice::recompute, &BlockPrice::backward}) {
    EXPECT_NEAR(
        (mixed.*pass).attention * 2.0 / ((windowed.*pass).attention + (full.*pass).attention), 1.0,
        1e-12);
    EXPECT_EQ((mixed.*pass).gemm, (full.*pass).gemm);
  }
}

TEST(LayerPrices, AreOneForEachKindAndListWhatIsAskedFor) {
  TrainingRun run = small_run();
  run.model = small_moe();
  run.model.moe->num_dense_layers = 1;
  const LayerPrices prices = layer_prices(run);
  EXPECT_EQ(prices.blocks.size(), layer_kinds(run.model).size());
  EXPECT_EQ(prices.whole_blocks.size(), layer_kinds(run.model).size());
  for (const BlockPrice& block : prices.blocks) {
    EXPECT_EQ(block.operators, nullptr);
    EXPECT_EQ(block.memory.tensors, nullptr);
  }
  EXPECT_NE(layers_with_operators(run).blocks[0].operators, nullptr);
  EXPECT_NE(layers_with_tensors(run).blocks[0].memory.tensors, nullptr);
}

}  // namespace
}  // namespace llmsim::sim
