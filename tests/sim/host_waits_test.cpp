#include "sim/schedule/host_waits.h"

#include <string_view>

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr Seconds kMs{1e-3};

TEST(HostQueue, AHostFarBehindItsDeviceIsWaitedForInFull) {
  // 100 ms of host against 2: (2^4 + 100^4)^(1/4) = 100.000004.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 100 * kMs}, {.device = 900 * kMs, .host = 4 * kMs}, false);
  EXPECT_NEAR(waits.forward / kMs, 98.0, 1e-4);
  EXPECT_NEAR(waits.backward / kMs, 0.0, 1e-4);
}

TEST(HostQueue, AnEqualHostCostsAFifth) {
  // (5^4 + 5^4)^(1/4) = 5 * 2^(1/4) = 5.946.
  const LaunchWaits waits = launch_waits({.device = 5 * kMs, .host = 5 * kMs}, {}, false);
  EXPECT_NEAR(waits.forward / kMs, 0.946, 1e-3);
}

TEST(HostQueue, NoCallsNoWait) {
  const LaunchWaits waits = launch_waits({.device = 5 * kMs}, {.device = 7 * kMs}, true);
  EXPECT_EQ(waits.forward, Seconds(0.0));
  EXPECT_EQ(waits.backward, Seconds(0.0));
}

TEST(HostQueue, ALongBackwardPassHidesTheNextForwardLaunches) {
  // 50 + 4 ms of host under 2 + 900 ms of device: alone the forward pass would wait 48 ms.
  const PassLoad forward{.device = 2 * kMs, .host = 50 * kMs}, backward{.device = 900 * kMs, .host = 4 * kMs};
  EXPECT_NEAR(launch_waits(forward, backward, false).forward / kMs, 48.0, 0.01);
  EXPECT_NEAR(launch_waits(forward, backward, true).forward / kMs, 0.0, 0.01);
}

TEST(HostQueue, RunningAheadLeavesTheDifferenceOfTheSums) {
  // 600 + 4 ms of host, 2 + 50 ms of device: 552 ms, all where the host is slower than the device.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 600 * kMs}, {.device = 50 * kMs, .host = 4 * kMs}, true);
  EXPECT_NEAR(waits.forward / kMs, 552.0, 0.01);
  EXPECT_NEAR(waits.backward / kMs, 0.0, 0.01);
}

TEST(HostQueue, AShardedBlockIsOneUnitOrOneForEachModule) {
  // Two norms and qkv, projection, up, down; a gated MLP has one GEMM more.
  Transformer model = small_model();
  Framework framework;
  EXPECT_EQ(units_per_block(model, framework), 1.0);
  framework.sharded.modules_are_units = true;
  EXPECT_EQ(units_per_block(model, framework), 6.0);
  model.gated_mlp = true;
  EXPECT_EQ(units_per_block(model, framework), 7.0);
}

TEST(HostQueue, HooksOfSevenModulesBoundATinyStep) {
  // Eight blocks, each 6 modules x 1 ms, forward, recomputed and backward; eight micro-batches: 8 x 8 x 6 x 3 ms = 1.152 s, and
  // the device needs less.
  TrainingRun run = small_run();
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const Seconds before = predict(run).step_time;
  run.framework.sharded.modules_are_units = true;
  run.framework.host.per_unit = kMs;
  const Prediction bound = predict(run);
  double optimizer = 0.0;
  for (const TimeTerm& t : bound.breakdown) optimizer += std::string(t.name) == "optimizer" ? t.time.value() : 0.0;
  EXPECT_LT(before, Seconds(1.152));
  EXPECT_NEAR(bound.step_time.value() - optimizer, 1.152, 0.002);
}

TEST(HostQueue, ASlowerHostBoundsTheStepByAsMuch) {
  TrainingRun run = small_run();
  run.framework.host.per_kernel = Seconds(0.1);
  const Seconds before = predict(run).step_time;
  run.cluster.device.achieved.host_call_factor = 2.5;
  EXPECT_NEAR(predict(run).step_time / before, 2.5, 1e-3);
}

TEST(HostQueue, LowPrecisionGemmsCostTheHostMore) {
  // Four linear layers in each of eight blocks: one GEMM forward, two backward; the head stays in 16 bits.
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  run.framework.host.per_low_precision_gemm = Seconds(1.0);
  const Prediction bound = predict(run);
  EXPECT_NEAR(bound.step_time.value(), 8 * 8 * 4 * 3.0, 1.0);
}

// A graph of the whole step is one call; graphs of modules leave the experts' kernels to the host.
TEST(HostQueue, GraphsOfModulesLeaveTheExpertsToTheHost) {
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

// A host link of 25 GB/s in each direction.
constexpr double kLink = 25e9;

TEST(HostTraffic, PinnedCopiesHideUnderComputeThatIsLonger) {
  const TrainingRun run = small_run();
  HostTraffic traffic(run);
  traffic.checkpoints(Bytes(kLink), false);
  EXPECT_EQ(traffic.exposed(Seconds(1.5)), Seconds(0.0));
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(0.25)).value(), 0.75);
}

TEST(HostTraffic, DirectionsRunBesideEachOther) {
  const TrainingRun run = small_run();
  HostTraffic traffic(run);
  traffic.weights(Bytes(2.0 * kLink));
  traffic.gradients(1.0, Bytes(3.0 * kLink), false);
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(1.0)).value(), 2.0);
}

TEST(HostTraffic, PageableCheckpointsAreWaitedFor) {
  TrainingRun run = small_run();
  run.framework.host_copies.checkpoints_down = 2.0 * GBps;
  HostTraffic down(run), up(run);
  down.checkpoints(Bytes(8e9), false);
  up.checkpoints(Bytes(8e9), true);
  EXPECT_DOUBLE_EQ(down.exposed(Seconds(100.0)).value(), 4.0);
  EXPECT_EQ(up.exposed(Seconds(100.0)), Seconds(0.0));
}

TEST(HostTraffic, WeightsThatAreNotFetchedAheadAreWaitedFor) {
  TrainingRun run = small_run();
  run.framework.sharded.prefetch_units = 0;
  HostTraffic traffic(run);
  traffic.weights(Bytes(kLink));
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(100.0)).value(), 1.0);
}

TEST(HostTraffic, GradientsCrossTheLinkForEveryMicroBatch) {
  TrainingRun run = small_run();
  run.framework.host_copies.gradients_return = true;
  run.framework.host_copies.last_gradient_bytes = 4.0;
  const double count = kLink / 2.0;  // 2 bytes each take a second
  HostTraffic other(run), last(run);
  other.gradients(count, Bytes(2.0 * count), false);
  last.gradients(count, Bytes(2.0 * count), true);
  EXPECT_DOUBLE_EQ(other.exposed(Seconds(0.0)).value(), 1.0);  // down and up
  EXPECT_DOUBLE_EQ(last.exposed(Seconds(0.0)).value(), 3.0);   // and 4 bytes more down
}

TEST(HostTraffic, TheHostCastsGradientsOnceAStep) {
  TrainingRun run = small_run();
  run.framework.host_copies.gradient_cast = Seconds(5e-9);
  HostTraffic other(run), last(run);
  other.gradients(1e9, Bytes(0.0), false);
  last.gradients(1e9, Bytes(0.0), true);
  EXPECT_EQ(other.exposed(Seconds(100.0)), Seconds(0.0));
  EXPECT_DOUBLE_EQ(last.exposed(Seconds(100.0)).value(), 5.0);
}

TEST(HostTraffic, DevicesBehindOneSwitchShareItsLink) {
  Cluster cluster = ideal_cluster(8);
  cluster.devices_per_host_link = 2;
  EXPECT_DOUBLE_EQ(cluster.host_link_share().value(), kLink / 2.0);
  cluster.num_devices = 4;  // one behind each of the four switches
  EXPECT_DOUBLE_EQ(cluster.host_link_share().value(), kLink);
}

TEST(HostTraffic, IdleDevicesLeaveTheirShareOfHostMemory) {
  Cluster cluster = ideal_cluster(2);  // of eight in the node
  cluster.device.host_memory_bandwidth = 10.0 * GBps;
  EXPECT_DOUBLE_EQ(cluster.host_memory_share().value(), 40e9);
}

}  // namespace
}  // namespace llmsim::sim
