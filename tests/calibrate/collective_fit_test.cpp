#include "calibrate/collective_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

sim::Cluster node() {
  sim::Cluster cluster;
  cluster.fabric.device_bandwidth = 300.0 * sim::GBps;
  cluster.fabric.latency = sim::Seconds(6e-6);
  cluster.network.node_bandwidth = 200.0 * sim::GBps;
  cluster.device.achieved.collective_fraction = 0.68;
  return cluster;
}

TEST(CollectiveFit, RecoversPlantedCoefficientsWithinTheirErrors) {
  std::mt19937 generator(5);
  std::normal_distribution<double> noise(0.0, 0.1);
  std::vector<CollectiveSample> samples;
  for (const auto kind : {sim::CollectiveKind::AllReduce, sim::CollectiveKind::AllGather}) {
    for (double bytes = 1 << 14; bytes <= 1 << 29; bytes *= 2.0) {
      CollectiveSample sample{kind, sim::Bytes(bytes), {}, 8, 1.0};
      sample.time = predicted(sample, node()) * std::exp(noise(generator));
      samples.push_back(sample);
    }
  }
  sim::Cluster unknown = node();
  unknown.fabric.latency = sim::Seconds(1e-6);
  unknown.device.achieved.collective_fraction = 0.9;
  const CollectiveFit fit = fit_fabric(unknown, samples);
  EXPECT_EQ(fit.samples, samples.size());
  EXPECT_NEAR(fit.values[0].value, 0.68, 3.0 * fit.values[0].standard_error);
  EXPECT_NEAR(fit.values[1].value, 6e-6, 3.0 * fit.values[1].standard_error);
  EXPECT_LT(fit.median_abs_error, 0.1);
}

// Processes of one host: 3 GB/s, of which exchanges reach a half, 150 us, sums at 2 GB/s.
TEST(CollectiveFit, RecoversAHostsCollectives) {
  sim::Cluster host = node();
  host.devices_per_node = host.num_devices = 2;
  host.fabric.kind = sim::FabricKind::Loopback;
  host.fabric.devices = 2;
  host.fabric.device_bandwidth = 3.0 * sim::GBps;
  sim::Cluster truth = host;
  truth.device.achieved.collective_fraction = 0.5;
  truth.fabric.latency = 150.0 * sim::us;
  truth.fabric.sum_bandwidth = 2.0 * sim::GBps;
  std::mt19937 generator(5);
  std::normal_distribution<double> noise(0.0, 0.1);
  std::vector<CollectiveSample> samples;
  for (const auto kind : {sim::CollectiveKind::AllReduce, sim::CollectiveKind::AllGather,
                          sim::CollectiveKind::ReduceScatter, sim::CollectiveKind::SendRecv}) {
    for (double bytes = 1 << 10; bytes <= 1 << 26; bytes *= 4.0) {
      CollectiveSample sample{kind, sim::Bytes(bytes), {}, 2, 1.0};
      sample.time = predicted(sample, truth) * std::exp(noise(generator));
      samples.push_back(sample);
    }
  }
  const CollectiveFit fit = fit_loopback(host, samples);
  ASSERT_EQ(fit.values.size(), 3U);
  EXPECT_NEAR(fit.values[0].value, 0.5, 3.0 * fit.values[0].standard_error);
  EXPECT_NEAR(fit.values[1].value, 150e-6, 3.0 * fit.values[1].standard_error);
  EXPECT_NEAR(fit.values[2].value, 2e9, 3.0 * fit.values[2].standard_error);
  EXPECT_LT(fit.values[0].standard_error, 0.05);
  EXPECT_LT(fit.median_abs_error, 0.1);
}

// All-to-alls over 2 to 32 nodes of a network that takes 200 us at once and 5 us for each rank of
// another node.
TEST(CollectiveFit, RecoversWhatAllToAllsTakeForEachPeer) {
  sim::Cluster nodes = node();
  nodes.network.node_bandwidth = 400.0 * sim::GBps;
  sim::Cluster truth = nodes;
  truth.network.all_to_all_latency = 200.0 * sim::us;
  truth.network.peer_latency = 5.0 * sim::us;
  std::mt19937 generator(5);
  std::normal_distribution<double> noise(0.0, 0.05);
  std::vector<CollectiveSample> samples;
  for (int ranks = 16; ranks <= 256; ranks *= 2) {
    for (double bytes = 1 << 25; bytes <= 2147483648.0; bytes *= 4.0) {
      CollectiveSample sample{sim::CollectiveKind::AllToAll, sim::Bytes(bytes), {}, ranks, 1.0};
      sample.time = predicted(sample, truth) * std::exp(noise(generator));
      samples.push_back(sample);
    }
  }
  const CollectiveFit fit = fit_all_to_all(nodes, samples);
  ASSERT_EQ(fit.values.size(), 2U);
  EXPECT_NEAR(fit.values[0].value, 200e-6, 3.0 * fit.values[0].standard_error);
  EXPECT_NEAR(fit.values[1].value, 5e-6, 3.0 * fit.values[1].standard_error);
  EXPECT_LT(fit.values[1].standard_error, 1e-6);
  EXPECT_LT(fit.median_abs_error, 0.05);
}

TEST(CollectiveFit, DescribesAClusterAsItIs) {
  // Twice the predicted time everywhere: an error of ln 2.
  CollectiveSample sample{sim::CollectiveKind::AllGather, 1.0 * sim::GiB, {}, 8, 1.0};
  sample.time = 2.0 * predicted(sample, node());
  EXPECT_NEAR(describe_collectives(node(), std::vector{sample}).median_abs_error, std::log(2.0),
              1e-12);
}

TEST(CollectiveFit, NeedsSamples) { EXPECT_THROW(fit_fabric(node(), {}), Error); }

}  // namespace
}  // namespace llmsim::calibrate
