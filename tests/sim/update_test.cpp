#include "sim/operators/update.h"

#include <gtest/gtest.h>

#include <utility>

#include "sim/schedule/step.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// 2-byte weights and gradients, fp32 master weights and states.
constexpr ParameterStorage kMixed{};
constexpr ParameterStorage kFp32{.weight_bytes = 4, .gradient_bytes = 4, .master_bytes = 0};

double bytes(OptimizerKind optimizer, const ParameterStorage& storage, bool fused) {
  return lower_update(optimizer, storage, fused, 1.0, 1.0).update.moved.value();
}

TEST(Update, AFusedUpdateStreamsEveryValueOnce) {
  // gradient 2, master 2 * 4, states 2 * (4 + 4), weight 2
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::AdamW, kMixed, true), 2.0 + 8.0 + 16.0 + 2.0);
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::Lion, kMixed, true), 2.0 + 8.0 + 8.0 + 2.0);
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::Sgd, kMixed, true), 2.0 + 8.0 + 2.0);
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::AdamW, kFp32, true), 4.0 + 8.0 + 16.0);
}

TEST(Update, LambReadsItsStepAgain) {
  EXPECT_DOUBLE_EQ(
      bytes(OptimizerKind::Lamb, kFp32, true) - bytes(OptimizerKind::Adam, kFp32, true), 12.0);
}

TEST(Update, AnUnfusedUpdateStreamsEveryOperation) {
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::AdamW, kFp32, false), 20.0 * 4.0);
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::Momentum, kFp32, false), 8.0 * 4.0);
  // And the 16-bit copy.
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::AdamW, kMixed, false), 20.0 * 4.0 + 2.0);
}

// The table of update.h: each operation reads or writes so many values.
TEST(Update, AnUnfusedUpdateStreamsTheSumOfItsOperations) {
  const double adamw = 2 + 3 + 2 + 3 + 2 + 2 + 2 + 4;
  const std::pair<OptimizerKind, double> sums[] = {{OptimizerKind::AdamW, adamw},
                                                   {OptimizerKind::Adam, adamw - 2},
                                                   {OptimizerKind::Lamb, adamw + 2 + 3},
                                                   {OptimizerKind::Lion, 2 + 5 + 2 + 3 + 5},
                                                   {OptimizerKind::Sgd, 3},
                                                   {OptimizerKind::Momentum, 2 + 3 + 3},
                                                   {OptimizerKind::Muon, 2 + 3 + 3}};
  for (const auto& [optimizer, values] : sums) {
    EXPECT_DOUBLE_EQ(bytes(optimizer, kFp32, false), 4.0 * values) << name_of(optimizer);
    const Operator update = lower_update(optimizer, kFp32, false, 1.0, 1.0).update;
    EXPECT_EQ(update.kernels, static_cast<int>(values / 2)) << name_of(optimizer);
  }
  for (const bool fused : {false, true})
    EXPECT_DOUBLE_EQ(bytes(OptimizerKind::Adafactor, kFp32, fused), 4.0 * (2 + 2 + 2 + 3 + 3 + 3));
}

TEST(Update, TheNormReadsEveryGradientAndClippingScalesIt) {
  const UpdateOperators operators = lower_update(OptimizerKind::AdamW, kMixed, true, 1.0, 3.0);
  EXPECT_DOUBLE_EQ(operators.norm.moved.value(), 3.0 * 2.0);
  EXPECT_EQ(operators.norm.kernels, 2);
  EXPECT_DOUBLE_EQ(operators.clip.moved.value(), 3.0 * 2.0 * 2.0);
  EXPECT_EQ(operators.update.kernels, 2);
}

TEST(Update, AnEightBitStateHasAScalePer256Values) {
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(OptimizerKind::Adam8bit, kMixed),
                   2.0 * (1.0 + 4.0 / 256.0));
  EXPECT_DOUBLE_EQ(state_bytes_per_parameter(OptimizerKind::Adafactor, kMixed), 0.0);
}

TEST(Update, OnlyUnfusedUpdatesNeedATemporary) {
  const UpdateBehaviour fused{}, unfused{.fused = false};
  EXPECT_DOUBLE_EQ(update_temporary_bytes(OptimizerKind::AdamW, kMixed, fused), 0.0);
  EXPECT_DOUBLE_EQ(update_temporary_bytes(OptimizerKind::AdamW, kMixed, unfused), 4.0);
  EXPECT_DOUBLE_EQ(update_temporary_bytes(OptimizerKind::Adafactor, kMixed, fused), 4.0);
  EXPECT_DOUBLE_EQ(update_temporary_bytes(OptimizerKind::Sgd, kMixed, unfused), 0.0);
}

// DeepSpeed's ZeRO-2 flattens 2 bytes and casts them to 4, frees the 2 that it had, and runs an
// optimizer with one or two fp32 temporaries.
TEST(Update, TemporariesOfTheOptimizerComeOnTopOfTheGradientsThatStay) {
  UpdateBehaviour update{.temporary_bytes = 6.0, .kept_temporary_bytes = 2.0};
  const auto bytes = [&] { return update_temporary_bytes(OptimizerKind::AdamW, kMixed, update); };
  EXPECT_DOUBLE_EQ(bytes(), 6.0);
  update.fused = false;
  EXPECT_DOUBLE_EQ(bytes(), 2.0 + 4.0);
  update.temporary_values = 2.0;
  EXPECT_DOUBLE_EQ(bytes(), 2.0 + 8.0);
}

TEST(Update, OnTheDeviceItStreamsAtMemoryBandwidth) {
  // 28 bytes, the norm 2 and clipping 4 of 1e9 parameters at 1 TB/s.
  EXPECT_DOUBLE_EQ(update_time(small_run(), {.shared = 1e9}).value(), 34e9 / 1e12);
}

TEST(Update, WithoutClippingOnlyTheUpdateStreams) {
  TrainingRun run = small_run();
  run.strategy.gradient_clip = false;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), 28e9 / 1e12);
}

TEST(Update, AnEightBitUpdateIsBoundByItsArithmetic) {
  TrainingRun run = small_run();
  run.strategy.optimizer = OptimizerKind::Adam8bit;
  run.framework.update.in_backward = true;
  // 610 operations for each of 1e9 parameters at 10 TFLOP/s; its 16 bytes would take 16 ms.
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), 0.061);
  run.cluster.device.vector_peak = 100.0 * TFLOPS;
  // gradient 2, master 2 * 4, states 4 (1 + 4 / 256), weight 2: more than 6.1 ms.
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(),
                   (2.0 + 8.0 + 4.0 * (1.0 + 4.0 / 256.0) + 2.0) * 1e9 / 1e12);
}

TEST(Update, InsideTheBackwardPassItTakesNoNorm) {
  TrainingRun run = small_run();
  run.framework.update.in_backward = true;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), 28e9 / 1e12);
}

TEST(Update, ALoopOverTensorsTakesAsLongAsItsLaunches) {
  TrainingRun run = small_run();
  run.framework.update = {.fused = false, .tensor_by_tensor = true};
  run.framework.host.per_kernel = Seconds(1e-3);
  // AdamW: ten kernels, three of the norm and of clipping, one that makes the gradient zero.
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e6}, 100.0).value(), 100.0 * 14.0 * 1e-3);
  run.framework.host.factor = 2.0;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e6}, 100.0).value(), 2.0 * 100.0 * 14.0 * 1e-3);
  run.strategy.gradient_clip = false;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e6}, 100.0).value(), 2.0 * 100.0 * 11.0 * 1e-3);
  // Large tensors take longer than their launches, and one kernel for all has none.
  EXPECT_GT(update_time(run, {.shared = 1e12}, 100.0), Seconds(2.0 * 100.0 * 11.0 * 1e-3));
  run.framework.update.fused = true;
  EXPECT_LT(update_time(run, {.shared = 1e6}, 100.0), Seconds(1e-3));
}

TEST(Update, OnTheHostItStreamsAtARanksShareOfHostMemory) {
  // fp32 gradient 4, master 8, states 16, weight 2, clipping 8; a share of 10 GB/s with all eight
  // devices busy; 2-byte weights go up at 25 GB/s.
  TrainingRun run = small_run(8);
  run.strategy.offload.optimizer = true;
  run.cluster.device.host_memory_bandwidth = 10.0 * GBps;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), 38e9 / 10e9 + 2e9 / 25e9);
  run.strategy.offload.parameters = true;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), 38e9 / 10e9);
}

TEST(Update, AnUnfusedHostOptimizerIsSlower) {
  TrainingRun run = small_run(8);
  run.strategy.offload = {.optimizer = true, .parameters = true};
  run.cluster.device.host_memory_bandwidth = 10.0 * GBps;
  run.framework.host_copies.update_slowdown = 5.6;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), (5.6 * 30e9 + 8e9) / 10e9);
}

TEST(Update, ShardedRanksUpdateTheirShare) {
  TrainingRun run = small_run(8);
  const double whole = update_time(run, {.shared = 1e9}).value();
  run.strategy.sharding = Sharding::Zero1;
  EXPECT_DOUBLE_EQ(update_time(run, {.shared = 1e9}).value(), whole / 8.0);
}

}  // namespace
}  // namespace llmsim::sim
