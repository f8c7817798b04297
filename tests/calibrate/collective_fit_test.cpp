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
  // With another as predicted: the root of the mean square, and the median of both.
  CollectiveSample other = sample;
  other.time = predicted(other, node());
  const CollectiveFit both = describe_collectives(node(), std::vector{sample, other});
  EXPECT_NEAR(both.rms, std::log(2.0) / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(both.median_abs_error, std::log(2.0) / 2.0, 1e-12);
  EXPECT_EQ(both.samples, 2u);
}

using FitOf = CollectiveFit (*)(const sim::Cluster&, std::span<const CollectiveSample>);

// A coefficient with its prior.
struct Prior {
  std::size_t place;
  double value, spread;
  void (*set)(sim::Cluster&, double);
};

// Three equal samples, of a coefficient e times its prior, that together weigh as much as the prior:
// how far, in logarithms, the fit goes from the prior, over how far the least of
//   w ln(predicted / measured)^2 + (0.08 x / spread)^2
// lies from it.
double pulled(FitOf fit, sim::Cluster cluster, sim::CollectiveKind kind, double bytes,
              const Prior& prior) {
  const double of_prior = std::pow(0.08 / prior.spread, 2);
  CollectiveSample sample{kind, sim::Bytes(bytes), {}, cluster.num_devices, of_prior / 3.0};
  prior.set(cluster, prior.value * std::exp(1.0));
  sample.time = predicted(sample, cluster);
  const double found = fit(cluster, std::vector(3, sample)).values[prior.place].value;
  double least = INFINITY, best = 0.0;
  for (double x = 0.0; x <= 1.0; x += 1e-3) {
    prior.set(cluster, prior.value * std::exp(x));
    const double error = std::log(predicted(sample, cluster) / sample.time);
    const double sum = of_prior * (error * error + x * x);
    if (sum < least) least = sum, best = x;
  }
  EXPECT_GT(best, 0.1);  // the sample tells
  return std::log(found / prior.value) / best;
}

constexpr double kTiny = 1.0, kHuge = 64.0 * 1073741824.0;  // bytes: latency above all, none

void set_fraction(sim::Cluster& c, double v) { c.device.achieved.collective_fraction = v; }
void set_latency(sim::Cluster& c, double v) { c.fabric.latency = sim::Seconds(v); }

TEST(CollectiveFit, PriorsCountAsTheHeaderSays) {
  sim::Cluster cluster = node();
  cluster.num_devices = 8;
  cluster.device.achieved.collective_fraction = 0.75;
  cluster.fabric.latency = 3.4 * sim::us;
  const auto send = sim::CollectiveKind::SendRecv;
  EXPECT_NEAR(pulled(fit_fabric, cluster, send, kTiny, {1, 3.4e-6, 1.0, set_latency}), 1.0, 0.02);
  EXPECT_NEAR(pulled(fit_fabric, cluster, send, kHuge, {0, 0.75, 0.5, set_fraction}), 1.0, 0.02);
}

TEST(CollectiveFit, PriorsOfAHostCountAsTheHeaderSays) {
  sim::Cluster host = node();
  host.devices_per_node = host.num_devices = 2;
  host.fabric.kind = sim::FabricKind::Loopback;
  host.fabric.devices = 2;
  host.fabric.device_bandwidth = 3.0 * sim::GBps;
  host.device.achieved.collective_fraction = 0.5;
  host.fabric.latency = 100.0 * sim::us;
  host.fabric.sum_bandwidth = 2.0 * sim::GBps;
  const auto send = sim::CollectiveKind::SendRecv;
  EXPECT_NEAR(pulled(fit_loopback, host, send, kTiny, {1, 1e-4, 1.5, set_latency}), 1.0, 0.02);
  EXPECT_NEAR(pulled(fit_loopback, host, send, kHuge, {0, 0.5, 1.0, set_fraction}), 1.0, 0.02);
  host.fabric.device_bandwidth = 1e6 * sim::GBps;  // sums alone take time
  const Prior sums{2, 2e9, 1.5, [](sim::Cluster& c, double v) {
                     c.fabric.sum_bandwidth = sim::BytesPerSecond(v);
                   }};
  EXPECT_NEAR(pulled(fit_loopback, host, sim::CollectiveKind::AllReduce, kHuge, sums), 1.0, 0.02);
}

// Of two ranks' nodes the one, of many the other is nearly all of the time.
TEST(CollectiveFit, PriorsOfANetworkCountAsTheHeaderSays) {
  sim::Cluster nodes = node();
  nodes.num_devices = 16;
  nodes.network.all_to_all_latency = 100.0 * sim::us;
  nodes.network.peer_latency = 1.0 * sim::us;
  const auto all_to_all = sim::CollectiveKind::AllToAll;
  const Prior start{0, 1e-4, 1.5, [](sim::Cluster& c, double v) {
                      c.network.all_to_all_latency = sim::Seconds(v);
                    }};
  EXPECT_NEAR(pulled(fit_all_to_all, nodes, all_to_all, kTiny, start), 1.0, 0.05);
  nodes.num_devices = 4096;
  const Prior peers{1, 1e-6, 1.5,
                    [](sim::Cluster& c, double v) { c.network.peer_latency = sim::Seconds(v); }};
  EXPECT_NEAR(pulled(fit_all_to_all, nodes, all_to_all, kTiny, peers), 1.0, 0.05);
}

// Curves of one and of four samples that say a half and twice the latency weigh the same.
TEST(CollectiveFit, EachCurveCountsOnce) {
  sim::Cluster cluster = node();
  cluster.num_devices = 8;
  std::vector<CollectiveSample> samples;
  for (const int sizes : {1, 4}) {
    sim::Cluster truth = cluster;
    truth.fabric.latency = (sizes == 1 ? 500.0 : 2000.0) * sim::us;
    for (int i = 0; i < sizes; ++i) {
      CollectiveSample sample{sim::CollectiveKind::SendRecv, sim::Bytes(kTiny), {}, 8, 1.0 / sizes};
      sample.time = predicted(sample, truth);
      samples.push_back(sample);
    }
  }
  const CollectiveFit fit = fit_fabric(cluster, samples);
  EXPECT_NEAR(fit.values[1].value / 1e-3, 1.0, 0.1);
  EXPECT_NEAR(fit.rms, std::log(2.0), 0.03);  // each of them is ln 2 off
  EXPECT_EQ(fit.samples, 5u);
}

TEST(CollectiveFit, NeedsSamples) { EXPECT_THROW(fit_fabric(node(), {}), Error); }

}  // namespace
}  // namespace llmsim::calibrate
