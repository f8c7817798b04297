#include "sim/cost/tensor_overlap.h"

#include <gtest/gtest.h>

#include "sim/cost/layer_prices.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

double pipelined(double collective, double whole, double piece, double contention) {
  return pipelined_exposed(Seconds(collective), {.whole = Seconds(whole), .piece = Seconds(piece)}, 4, contention).value();
}

TEST(TensorOverlap, APipelineShowsWhatItsPiecesCannotHide) {
  // Four pieces: a product of 8 computes 2 + 3 * 2.  Messages of 1 each hide; of 3 each set the pace: 2 + 3 * 3 - 8 = 3.
  EXPECT_DOUBLE_EQ(pipelined(3.0, 8.0, 2.0, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(pipelined(9.0, 8.0, 2.0, 0.0), 3.0);
}

TEST(TensorOverlap, SmallPiecesOfAProductRunLessWell) {
  // Pieces of 2.5 instead of 2: 2.5 + 3 * 2.5 - 8 = 2.  Never more than the collective by itself.
  EXPECT_DOUBLE_EQ(pipelined(3.0, 8.0, 2.5, 0.0), 2.0);
  EXPECT_DOUBLE_EQ(pipelined(3.0, 8.0, 100.0, 0.0), 3.0);
}

TEST(TensorOverlap, WhatIsHiddenCostsContention) {
  EXPECT_DOUBLE_EQ(pipelined(9.0, 8.0, 2.0, 0.1), 3.0 + 0.1 * 6.0);
  EXPECT_DOUBLE_EQ(beside_exposed(Seconds(3.0), Seconds(8.0), 0.1).value(), 0.3);
  EXPECT_DOUBLE_EQ(beside_exposed(Seconds(9.0), Seconds(8.0), 0.1).value(), 1.0 + 0.8);
}

// Two ranks, 8192 tokens, and a fabric so fast that every collective is far shorter than its product.
TrainingRun tensor_run() {
  TrainingRun run = small_run(2);
  run.strategy.tensor_parallel = 2;
  run.strategy.data_parallel = 1;
  run.strategy.sequence_parallel = true;
  run.strategy.micro_batch = run.strategy.global_batch = 8;
  run.cluster.fabric.device_bandwidth = 10.0 * TBps;
  return run;
}

TEST(TensorOverlap, WithoutItEveryCollectiveShows) {
  const BlockPrice block = layer_prices(tensor_run()).block;
  EXPECT_GT(block.forward.collective, Seconds(0.0));
  EXPECT_EQ(block.forward.collective_exposed, block.forward.collective);
  EXPECT_EQ(block.backward.collective_exposed, block.backward.collective);
}

TEST(TensorOverlap, GradientsThatNeedNothingOfThemHideFourOfSixBackwardCollectives) {
  // Two blocks halves, each: input gathered again (beside dgrad), column gradient scattered (beside wgrad), row gradient gathered
  // (needed by all products).  Gathers and scatters of the same message take the same time.
  TrainingRun run = tensor_run();
  run.stack.hides_column_gradients = true;
  const BlockPrice block = layer_prices(run).block;
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 2.0 / 6.0, 1e-9);
  EXPECT_EQ(block.forward.collective_exposed, block.forward.collective);
}

TEST(TensorOverlap, PipelinesHideThemAll) {
  // Products of this device cost flops / peak however small, so pieces add up to the whole.
  TrainingRun run = tensor_run();
  run.strategy.tensor_overlap = true;
  const BlockPrice block = layer_prices(run).block;
  EXPECT_NEAR(block.forward.collective_exposed / block.forward.collective, 0.0, 1e-9);
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 0.0, 1e-9);
  run.cluster.device.achieved.contention = 0.2;
  EXPECT_NEAR(layer_prices(run).block.forward.collective_exposed / block.forward.collective, 0.2, 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
