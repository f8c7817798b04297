#include "sim/strategy/narrow_recipe.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/cost/layer_prices.h"
#include "sim/cost/recipe_support.h"
#include "sim/memory/stage_bytes.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr NarrowRecipe kBlockwise{.scaling = NarrowScaling::Blockwise};

TEST(NarrowRecipe, FormatsBringTheirScales) {
  EXPECT_EQ(scaling_of(kBlockwise, Precision::Fp8), NarrowScaling::Blockwise);
  EXPECT_EQ(scaling_of(kBlockwise, Precision::Mxfp8), NarrowScaling::Mxfp8);
  EXPECT_EQ(scaling_of(kBlockwise, Precision::Nvfp4), NarrowScaling::Nvfp4);
}

TEST(NarrowRecipe, BytesOfAnElementWithItsScales) {
  EXPECT_DOUBLE_EQ(narrow_bytes({}, Precision::Fp8, false), 1.0);                         // one scale a tensor
  EXPECT_DOUBLE_EQ(narrow_bytes(kBlockwise, Precision::Fp8, false), 1.0 + 4.0 / 128.0);   // 1 x 128
  EXPECT_DOUBLE_EQ(narrow_bytes(kBlockwise, Precision::Fp8, true), 1.0 + 4.0 / 16384.0);  // 128 x 128
  EXPECT_DOUBLE_EQ(narrow_bytes(kBlockwise, Precision::Mxfp8, true), 1.0 + 1.0 / 32.0);   // 1 x 32
  EXPECT_DOUBLE_EQ(narrow_bytes(kBlockwise, Precision::Nvfp4, false), 0.5 + 1.0 / 16.0);  // 1 x 16
  EXPECT_DOUBLE_EQ(narrow_bytes(kBlockwise, Precision::Bf16, false), 2.0);                // no narrow format at all
}

TEST(NarrowRecipe, OnlyTensorScalesLetOneCopyServeBothProducts) {
  const NarrowRecipe any_layout{.scaling = NarrowScaling::Current, .copies = 1.0};
  EXPECT_EQ(narrow_copies(any_layout, Precision::Fp8), 1.0);
  EXPECT_EQ(narrow_copies(any_layout, Precision::Mxfp8), 2.0);
}

TEST(NarrowRecipe, BlockScalesNeedADeviceThatReadsThem) {
  Device hopper = ideal_device();
  hopper.matrix_peak[static_cast<std::size_t>(DType::Fp4)] = FlopsPerSecond(0.0);
  EXPECT_NO_THROW(require_recipe(hopper, kBlockwise, Precision::Fp8));
  EXPECT_NO_THROW(require_recipe(hopper, kBlockwise, Precision::Bf16));
  try {
    require_recipe(hopper, kBlockwise, Precision::Mxfp8);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("precision = mxfp8: ideal multiplies no factors with a scale for each 16 or 32 elements"),
              std::string::npos);
    EXPECT_NE(text.find("fp32, tf32, fp16, bf16, fp8 (fp8 with"), std::string::npos);
  }
  hopper.block_scales = true;
  EXPECT_NO_THROW(require_recipe(hopper, kBlockwise, Precision::Mxfp8));
}

TEST(NarrowRecipe, WideBlocksArePricedIn16Bits) {
  TrainingRun run = small_run();
  const PassPrice wide = layer_prices(run).block.forward;
  run.strategy.precision = Precision::Fp8;
  const PassPrice narrow = layer_prices(run).block.forward;
  run.stack.narrow.wide_first = 1, run.stack.narrow.wide_last = 1;  // two of eight
  EXPECT_NEAR(layer_prices(run).block.forward.gemm / (0.75 * narrow.gemm + 0.25 * wide.gemm), 1.0, 1e-12);
  run.stack.narrow.wide_last = 7;
  EXPECT_NEAR(layer_prices(run).block.forward.total() / wide.total(), 1.0, 1e-12);
}

Bytes weights_of(const TrainingRun& run) {
  return stage_bytes(run, layer_prices(run), StageContents(run.model, run.strategy), 0).weights;
}

TEST(NarrowRecipe, CachedWeightsStayBesideThe16BitOnesStoredOnesInTheirPlace) {
  TrainingRun run = small_run();
  run.cluster.device.block_scales = true;
  const Bytes wide = weights_of(run);
  const double narrow = StageContents(run.model, run.strategy).rank().block * run.model.num_layers;
  run.strategy.precision = Precision::Fp8;
  EXPECT_EQ(weights_of(run), wide);  // quantised for each micro-batch, and gone
  run.stack.narrow.caches_weights = true;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), 2.0 * narrow);  // both layouts
  run.stack.narrow.copies = 1.0;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), narrow);
  run.stack.narrow.stores_weights = true;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), -narrow);
  run.strategy.precision = Precision::Mxfp8;
  EXPECT_DOUBLE_EQ((weights_of(run) - wide).value(), narrow / 16.0);  // 2 (1 + 1/32) - 2
}

TEST(NarrowRecipe, ShardedWeightsAreQuantisedAsTheyAreGathered) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const Bytes wide = weights_of(run);
  run.strategy.precision = Precision::Fp8;
  run.stack.narrow.caches_weights = true;
  EXPECT_EQ(weights_of(run), wide);
}

}  // namespace
}  // namespace llmsim::sim
