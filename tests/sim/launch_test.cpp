#include "sim/schedule/launch.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr Seconds kMs{1e-3};

TEST(Launch, AHostFarBehindItsDeviceIsWaitedForInFull) {
  // 100 ms of host against 2: (2^4 + 100^4)^(1/4) = 100.000004.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 100 * kMs},
                                         {.device = 900 * kMs, .host = 4 * kMs}, false);
  EXPECT_NEAR(waits.forward / kMs, 98.0, 1e-4);
  EXPECT_NEAR(waits.backward / kMs, 0.0, 1e-4);
}

TEST(Launch, AnEqualHostCostsAFifth) {
  // (5^4 + 5^4)^(1/4) = 5 * 2^(1/4) = 5.946.
  const LaunchWaits waits = launch_waits({.device = 5 * kMs, .host = 5 * kMs}, {}, false);
  EXPECT_NEAR(waits.forward / kMs, 0.946, 1e-3);
}

TEST(HostCalls, TakeTheTimeOfEachOfTheirParts) {
  Framework framework;
  framework.host = {};
  framework.host.factor = 2.0;
  framework.host.per_kernel = 1.0 * kMs, framework.host.per_low_precision_gemm = 10.0 * kMs;
  framework.host.per_recomputed_block = 100.0 * kMs, framework.host.per_moe_block = 1e3 * kMs;
  framework.host.per_gradient = 1e4 * kMs;
  framework.host.per_unit = 3.0 * kMs, framework.host.per_slice = 30.0 * kMs;
  const HostCalls calls{.kernels = 1.0,
                        .low_precision_gemms = 2.0,
                        .units = 5.0,
                        .slices = 6.0,
                        .recomputed_blocks = 3.0,
                        .moe_blocks = 4.0,
                        .gradients = 5.0};
  EXPECT_NEAR(calls.launch_time(framework) / kMs, 2.0 * 54321.0, 1e-6);
  EXPECT_NEAR(calls.unit_time(framework) / kMs, 2.0 * (15.0 + 180.0), 1e-9);
}

TEST(Launch, NoCallsNoWait) {
  const LaunchWaits waits = launch_waits({.device = 5 * kMs}, {.device = 7 * kMs}, true);
  EXPECT_EQ(waits.forward, Seconds(0.0));
  EXPECT_EQ(waits.backward, Seconds(0.0));
}

TEST(Launch, ALongBackwardPassHidesTheNextForwardLaunches) {
  // 50 + 4 ms of host under 2 + 900 ms of device: alone the forward pass would wait 48 ms.
  const PassLoad forward{.device = 2 * kMs, .host = 50 * kMs},
      backward{.device = 900 * kMs, .host = 4 * kMs};
  EXPECT_NEAR(launch_waits(forward, backward, false).forward / kMs, 48.0, 0.01);
  EXPECT_NEAR(launch_waits(forward, backward, true).forward / kMs, 0.0, 0.01);
}

TEST(Launch, RunningAheadLeavesTheDifferenceOfTheSums) {
  // 600 + 4 ms of host, 2 + 50 ms of device: 552 ms, all where the host is slower than the device.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 600 * kMs},
                                         {.device = 50 * kMs, .host = 4 * kMs}, true);
  EXPECT_NEAR(waits.forward / kMs, 552.0, 0.01);
  EXPECT_NEAR(waits.backward / kMs, 0.0, 0.01);
}

TEST(Launch, AShardedBlockIsAsManyUnitsAsAreWrappedOrOneForEachModule) {
  // Two norms and qkv, projection, up, down; a gated MLP has one GEMM more.
  Transformer model = small_model();
  Framework framework;
  EXPECT_EQ(units_per_block(model, framework), 1.0);
  framework.sharded.unit_blocks = 0.25;
  EXPECT_EQ(units_per_block(model, framework), 4.0);
  framework.sharded.unit_blocks = 0.0;  // one of eight blocks
  EXPECT_EQ(units_per_block(model, framework), 1.0 / 8.0);
  framework.sharded.modules_are_units = true;
  EXPECT_EQ(units_per_block(model, framework), 6.0);
  model.gated_mlp = true;
  EXPECT_EQ(units_per_block(model, framework), 7.0);
}

TEST(Launch, HooksOfSevenModulesBoundATinyStep) {
  // Eight blocks, each 6 modules x 1 ms, forward, recomputed and backward; eight micro-batches: 8 x
  // 8 x 6 x 3 ms = 1.152 s, and the device needs less.
  TrainingRun run = small_run();
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const Seconds before = predict(run).step_time;
  run.framework.sharded.modules_are_units = true;
  run.framework.host.per_unit = kMs;
  const Prediction bound = predict(run);
  double optimizer = 0.0;
  for (const TimeTerm& t : bound.breakdown)
    optimizer += std::string(t.name) == "optimizer" ? t.time.value() : 0.0;
  EXPECT_LT(before, Seconds(1.152));
  EXPECT_NEAR(bound.step_time.value() - optimizer, 1.152, 0.002);
}

TEST(Launch, FetchesInStepAddWhatTheHostDoesAroundThem) {
  // 6 ms around units, whatever the device does.
  const PassLoad load{.device = 50 * kMs, .host = Seconds(0.0), .around = 6 * kMs};
  EXPECT_EQ(launch_waits(load, load, false).forward, 6 * kMs);
  // Eight blocks of six modules, two passes, eight micro-batches: 768 ms more, and half of them
  // once more where they are recomputed.
  TrainingRun run = small_run();
  const auto step = [&run] { return predict(run).step_time; };
  const auto added = [&] {
    run.framework.sharded.fetches_synchronise = true;
    run.framework.host.per_unit = Seconds(0.0);
    const Seconds before = step();
    run.framework.host.per_unit = kMs;
    return step() - before;
  };
  run.framework.sharded.modules_are_units = true;
  EXPECT_NEAR(added() / kMs, 768.0, 1e-6);
  run.strategy.recompute = {.kind = RecomputeKind::Full};
  EXPECT_NEAR(added() / kMs, 1152.0, 1e-6);
}

TEST(Launch, SlicesAreForEachRankOfAWeight) {
  // Four GEMMs in each of eight blocks, four ranks: forward once, backward for weight and gradient;
  // eight micro-batches of 0.1 ms each: 307.2 ms.
  TrainingRun run = small_run(4);
  run.strategy.sharding = Sharding::Zero3;
  run.framework.sharded.modules_are_units = run.framework.sharded.fetches_synchronise = true;
  const Seconds before = predict(run).step_time;
  run.framework.host.per_slice = 0.1 * kMs;
  EXPECT_NEAR((predict(run).step_time - before) / kMs, 307.2, 1e-6);
}

TEST(Launch, ASlowerHostBoundsTheStepByAsMuch) {
  TrainingRun run = small_run();
  run.framework.host.per_kernel = Seconds(0.1);
  const Seconds before = predict(run).step_time;
  run.cluster.device.achieved.host_call_factor = 2.5;
  EXPECT_NEAR(predict(run).step_time / before, 2.5, 1e-3);
}

TEST(Launch, HooksOfGradientsCostTheHostMore) {
  // Eight blocks of tensors, the embedding, the last norm and the head, in each of eight
  // micro-batches.
  TrainingRun run = small_run();
  run.framework.host.per_gradient = Seconds(1.0);
  const double tensors =
      parameter_tensors(run.model, model_chunks(run.model, run.strategy).front());
  EXPECT_NEAR(predict(run).step_time.value(), run.strategy.num_microbatches() * tensors, 1.0);
  run.framework.host.factor = 0.5;
  EXPECT_NEAR(predict(run).step_time.value(), 0.5 * run.strategy.num_microbatches() * tensors, 1.0);
}

TEST(Launch, LowPrecisionGemmsCostTheHostMore) {
  // Four linear layers in each of eight blocks: one GEMM forward, two backward; the head stays in
  // 16 bits.
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  run.framework.host.per_low_precision_gemm = Seconds(1.0);
  const Prediction bound = predict(run);
  EXPECT_NEAR(bound.step_time.value(), 8 * 8 * 4 * 3.0, 1.0);
}

// A graph of the whole step is one call; graphs of modules leave the experts' kernels to the host.
TEST(Launch, GraphsOfModulesLeaveTheExpertsToTheHost) {
  TrainingRun run = small_run();
  run.model = small_moe();
  run.framework.host.per_kernel = Seconds(1e-3);
  const auto waits = [&] {
    const Prediction prediction = predict(run);
    for (const auto& term : prediction.breakdown) {
      if (std::string_view(term.name) == "launch_wait") return term.time;
    }
    return Seconds(0.0);
  };
  const Seconds eager = waits();
  run.strategy.cuda_graph = true;
  EXPECT_EQ(waits(), Seconds(0.0));
  run.strategy.moe_captured = false;
  EXPECT_GT(waits(), Seconds(0.0));
  EXPECT_LT(waits(), eager);
}

}  // namespace
}  // namespace llmsim::sim
