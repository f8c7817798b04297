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

}  // namespace
}  // namespace llmsim::sim
