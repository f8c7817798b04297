// Fits the coefficients of collectives (sim/cost/collective.h) to measured curves, and says how
// well the formula describes them.
//
// On one node two coefficients of the device are fitted on ln(predicted / measured) with Huber
// weights: collective_fraction (what large messages reach) and fabric.latency_s (what small ones
// cost), from all curves and sizes, each curve counted once.  Weak priors are added to the data
// as residuals 0.08 ln(value / prior) / spread:  collective_fraction 0.75 (0.5),
// fabric.latency_s 3.4 us (1).
//
// Other priors than these may be given, such as those of a device that is like the measured one.
// Over several nodes the same two are fitted of the network, as scale_out_fraction and as
// network.latency_s, with such priors.
//
// Between processes of one host (sim/cost/collective.h) three: collective_fraction 0.5 (1),
// fabric.latency_s 100 us (1.5) and fabric.sum_bytes_per_s 2 GB/s (1.5).
#pragma once

#include <span>

#include "calibrate/least_squares.h"
#include "sim/cost/collective.h"

namespace llmsim::calibrate {

struct CollectiveSample {
  sim::CollectiveKind kind = sim::CollectiveKind::AllReduce;
  sim::Bytes message;  // nccl-tests' size
  sim::Seconds time;
  int ranks = 1;
  double weight = 1.0;  // 1 / sizes in its curve
};

// Below this a message is latency that no step of training notices.
inline constexpr sim::Bytes kSmallestMessage = 16.0 * sim::KiB;

// What is known of a link before the measurements: values, and spreads of their logarithms.
struct LinkPrior {
  double fraction = 0.75, fraction_spread = 0.5;
  double latency = 3.4e-6, latency_spread = 1.0;  // s
  LeastSquaresOptions options{};  // least_scale: standard errors are of such a misfit at least
};

// Time of a sample on a cluster whose devices all take part in one group.
sim::Seconds predicted(const CollectiveSample& sample, const sim::Cluster& cluster);

struct CollectiveFit {
  std::vector<FittedValue> values;  // named by their keys
  double rms = 0.0;
  double median_abs_error = 0.0;  // of ln(predicted / measured)
  std::size_t samples = 0;
};

// Throws Error for no samples.  `cluster` is one node.
CollectiveFit fit_fabric(const sim::Cluster& cluster, std::span<const CollectiveSample> samples);
CollectiveFit fit_fabric(const sim::Cluster& cluster, std::span<const CollectiveSample> samples,
                         const LinkPrior& prior);

// The same of the network, to collectives over several nodes whose devices all take part.
CollectiveFit fit_network(const sim::Cluster& cluster, std::span<const CollectiveSample> samples,
                          const LinkPrior& prior);

// The same of a cluster whose fabric is FabricKind::Loopback.
CollectiveFit fit_loopback(const sim::Cluster& cluster, std::span<const CollectiveSample> samples);

// Of a network, to all-to-alls over several nodes: network.all_to_all_latency_s 100 us (1.5) and
// network.peer_latency_s 1 us (1.5).
CollectiveFit fit_all_to_all(const sim::Cluster& cluster,
                             std::span<const CollectiveSample> samples);

// The errors of a cluster as it is; no values.
CollectiveFit describe_collectives(const sim::Cluster& cluster,
                                   std::span<const CollectiveSample> samples);

}  // namespace llmsim::calibrate
