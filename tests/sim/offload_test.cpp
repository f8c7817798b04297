#include "sim/schedule/offload.h"

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// A host link of 25 GB/s in each direction.
constexpr double kLink = 25e9;

TEST(Offload, PinnedCopiesHideUnderComputeThatIsLonger) {
  const TrainingRun run = small_run();
  HostTraffic traffic(run);
  traffic.checkpoints(Bytes(kLink), false);
  EXPECT_EQ(traffic.exposed(Seconds(1.5)), Seconds(0.0));
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(0.25)).value(), 0.75);
}

TEST(Offload, DirectionsOverlapEachOther) {
  const TrainingRun run = small_run();
  HostTraffic traffic(run);
  traffic.weights(Bytes(2.0 * kLink));
  traffic.gradients(1.0, Bytes(3.0 * kLink), false);
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(1.0)).value(), 2.0);
}

TEST(Offload, PageableCheckpointsAreWaitedFor) {
  TrainingRun run = small_run();
  run.framework.host_copies.checkpoints_down = 2.0 * GBps;
  HostTraffic down(run), up(run);
  down.checkpoints(Bytes(8e9), false);
  up.checkpoints(Bytes(8e9), true);
  EXPECT_DOUBLE_EQ(down.exposed(Seconds(100.0)).value(), 4.0);
  EXPECT_EQ(up.exposed(Seconds(100.0)), Seconds(0.0));
}

TEST(Offload, WeightsThatAreNotFetchedAheadAreWaitedFor) {
  TrainingRun run = small_run();
  run.framework.sharded.prefetch_units = 0;
  HostTraffic traffic(run);
  traffic.weights(Bytes(kLink));
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(100.0)).value(), 1.0);
}

TEST(Offload, GradientsCrossTheLinkForEveryMicroBatch) {
  TrainingRun run = small_run();
  run.framework.host_copies.gradients_return = true;
  run.framework.host_copies.last_gradient_bytes = 4.0;
  const double count = kLink / 2.0;  // 2 bytes each take a second
  HostTraffic other(run), last(run);
  other.gradients(count, Bytes(2.0 * count), false);
  last.gradients(count, Bytes(2.0 * count), true);
  EXPECT_DOUBLE_EQ(other.exposed(Seconds(0.0)).value(), 1.0);  // down and up
  EXPECT_DOUBLE_EQ(last.exposed(Seconds(0.0)).value(), 3.0);   // and 4 bytes more down
  other.weights(Bytes(kLink));  // up, beside the gradients that return
  EXPECT_DOUBLE_EQ(other.exposed(Seconds(0.0)).value(), 2.0);
}

TEST(Offload, TheHostCastsGradientsOnceAStep) {
  TrainingRun run = small_run();
  run.framework.host_copies.gradient_cast = Seconds(5e-9);
  const TrainingRun cast_by_device = run;
  run.framework.host_copies.casts_gradients = true;
  HostTraffic by_device(cast_by_device), other(run), last(run);
  by_device.gradients(1e9, Bytes(0.0), true);
  other.gradients(1e9, Bytes(0.0), false);
  last.gradients(1e9, Bytes(0.0), true);
  EXPECT_EQ(by_device.exposed(Seconds(100.0)), Seconds(0.0));
  EXPECT_EQ(other.exposed(Seconds(100.0)), Seconds(0.0));
  EXPECT_DOUBLE_EQ(last.exposed(Seconds(100.0)).value(), 5.0);
}

TEST(Offload, DevicesBehindOneSwitchShareItsLink) {
  Cluster cluster = ideal_cluster(8);
  cluster.devices_per_host_link = 2;
  EXPECT_DOUBLE_EQ(cluster.host_link_share().value(), kLink / 2.0);
  cluster.num_devices = 4;  // one behind each of the four switches
  EXPECT_DOUBLE_EQ(cluster.host_link_share().value(), kLink);
}

TEST(Offload, IdleDevicesLeaveTheirShareOfHostMemory) {
  Cluster cluster = ideal_cluster(2);  // of eight in the node
  cluster.device.host_memory_bandwidth = 10.0 * GBps;
  EXPECT_DOUBLE_EQ(cluster.host_memory_share().value(), 40e9);
}

}  // namespace
}  // namespace llmsim::sim
