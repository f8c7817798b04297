#include "sim/schedule/host_queue.h"

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr Seconds kMs{1e-3};

TEST(HostQueue, AStageWaitsInEachPassForWhatItsHostIsSlower) {
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 5 * kMs}, {.device = 9 * kMs, .host = 4 * kMs}, false);
  EXPECT_DOUBLE_EQ(waits.forward / kMs, 3.0);
  EXPECT_DOUBLE_EQ(waits.backward / kMs, 0.0);
}

TEST(HostQueue, ALongBackwardPassHidesTheNextForwardLaunches) {
  // 5 + 4 ms of host under 2 + 9 ms of device.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 5 * kMs}, {.device = 9 * kMs, .host = 4 * kMs}, true);
  EXPECT_DOUBLE_EQ(waits.forward / kMs, 0.0);
  EXPECT_DOUBLE_EQ(waits.backward / kMs, 0.0);
}

TEST(HostQueue, RunningAheadLeavesTheDifferenceOfTheSums) {
  // 6 + 4 ms of host, 2 + 5 ms of device: 3 ms, all where the host is slower than the device.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 6 * kMs}, {.device = 5 * kMs, .host = 4 * kMs}, true);
  EXPECT_DOUBLE_EQ(waits.forward / kMs, 3.0);
  EXPECT_DOUBLE_EQ(waits.backward / kMs, 0.0);
}

TEST(HostQueue, AShardedBlockIsOneUnitOrOneForEachModule) {
  // Two norms and qkv, projection, up, down; a gated MLP has one product more.
  Transformer model = small_model();
  Stack stack;
  EXPECT_EQ(units_per_block(model, stack), 1.0);
  stack.modules_are_units = true;
  EXPECT_EQ(units_per_block(model, stack), 6.0);
  model.gated_mlp = true;
  EXPECT_EQ(units_per_block(model, stack), 7.0);
}

TEST(HostQueue, HooksOfSevenModulesBoundATinyStep) {
  // Eight blocks, each 6 modules x 1 ms, forward, recomputed and backward; eight micro-batches: 8 x 8 x 6 x 3 ms = 1.152 s, and
  // the device needs less.
  TrainingRun run = small_run();
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const Seconds before = predict(run).step_time;
  run.stack.modules_are_units = true;
  run.stack.host_time_per_unit = kMs;
  const Prediction bound = predict(run);
  double optimizer = 0.0;
  for (const TimeTerm& t : bound.breakdown) optimizer += std::string(t.name) == "optimizer" ? t.time.value() : 0.0;
  EXPECT_LT(before, Seconds(1.152));
  EXPECT_NEAR(bound.step_time.value() - optimizer, 1.152, 1e-9);
}

TEST(HostQueue, NarrowProductsCostTheHostMore) {
  // Four linear layers in each of eight blocks: one product forward, two backward; the head stays in 16 bits.
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  run.stack.host_time_per_narrow_product = Seconds(1.0);
  const Prediction bound = predict(run);
  EXPECT_NEAR(bound.step_time.value(), 8 * 8 * 4 * 3.0, 1.0);
}

}  // namespace
}  // namespace llmsim::sim
