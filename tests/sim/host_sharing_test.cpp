#include "sim/cost/host_sharing.h"

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// A host of four processes; each neighbour adds a tenth to GEMMs and a half to streaming kernels.
Cluster host(int processes) {
  Cluster cluster = ideal_cluster(processes);
  cluster.devices_per_node = 4;
  cluster.fabric.kind = FabricKind::Loopback;
  cluster.device.cache = 32.0 * MB;
  cluster.device.achieved.sharing = {.collectives = 1.0, .gemms = 0.1, .streaming = 0.5};
  return cluster;
}

TEST(HostSharing, AProcessAloneHasTheHost) {
  const HostShare share = host_share(host(1));
  EXPECT_DOUBLE_EQ(share.gemms, 1.0);
  EXPECT_DOUBLE_EQ(share.streaming, 1.0);
  EXPECT_DOUBLE_EQ(share.cache, 1.0);
}

TEST(HostSharing, EachNeighbourAddsItsTime) {
  const HostShare share = host_share(host(4));
  EXPECT_DOUBLE_EQ(share.gemms, 1.0 / 1.3);
  EXPECT_DOUBLE_EQ(share.streaming, 1.0 / 2.5);
  EXPECT_DOUBLE_EQ(share.cache, 0.25);
}

// Eight processes are four on each of two hosts.
TEST(HostSharing, OtherHostsTakeNothing) { EXPECT_DOUBLE_EQ(host_share(host(8)).gemms, 1.0 / 1.3); }

TEST(HostSharing, AcceleratorsShareNothing) {
  Cluster cluster = host(4);
  cluster.fabric.kind = FabricKind::Switch;
  EXPECT_DOUBLE_EQ(host_share(cluster).gemms, 1.0);
  EXPECT_DOUBLE_EQ(host_share(cluster).cache, 1.0);
}

// What fits a quarter of the cache streams as before; 1 GB, far beyond it, takes 2.5 times as long.
TEST(HostSharing, SlowsWhatGoesToMemory) {
  const StreamingForms forms{.dtype = DType::Fp32};
  const Operator small = streaming(OperatorKind::Norm, "norm", 1e6, 1.0, 0);
  const Operator large = streaming(OperatorKind::Norm, "norm", 1e9, 1.0, 0);
  const auto time = [&](const Operator& op, int processes) {
    return streaming_time(op, false, streaming_machine(host(processes), forms));
  };
  EXPECT_DOUBLE_EQ(time(small, 4) / time(small, 1), 1.0);
  EXPECT_DOUBLE_EQ(time(large, 4) / time(large, 1), 2.5);
}

// Two processes that hide nothing: the step of a replica, alone, and what is sent, to a hundredth.
TEST(HostSharing, HostsHideNoCollectives) {
  TrainingRun run = small_run();
  run.cluster = host(2);
  run.cluster.fabric.device_bandwidth = 1.0 * GBps;
  run.cluster.device.achieved.sharing = {.collectives = 1.0};
  run.strategy.dp = 2;
  run.strategy.global_batch = 2 * run.strategy.micro_batch;
  const Prediction two = predict(run);
  run.cluster.num_devices = run.strategy.dp = 1;
  run.strategy.global_batch = run.strategy.micro_batch;
  const Prediction one = predict(run);
  Seconds sent;
  for (const CommunicationTerm& term : two.communication) sent += term.time;
  ASSERT_GT(sent, 0.1 * one.step_time);
  EXPECT_NEAR((two.step_time - one.step_time) / sent, 1.0, 0.02);
}

}  // namespace
}  // namespace llmsim::sim
