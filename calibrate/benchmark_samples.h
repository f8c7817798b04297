// What fits take of the rows of benchmarks: equal shapes and messages together, each as its median.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/collective_fit.h"
#include "calibrate/figure.h"
#include "calibrate/gemm_fit.h"
#include "hwdb/benchmarks/benchmark_file.h"
#include "sim/hardware/cluster.h"

namespace llmsim::calibrate {

// GEMMs with aligned rows in a format.  Throws Error for one that is faster than the device can be,
// and for more shapes than can be fitted.
std::vector<GemmSample> benchmarked_gemms(std::span<const hwdb::BenchmarkFile> files,
                                          const sim::Device& device, sim::DType dtype);

struct BenchmarkedCollectives {
  std::vector<CollectiveSample> one_node;
  std::vector<CollectiveSample> several_nodes;  // groups that hold all devices of their nodes
  std::vector<CollectiveSample> all_to_alls;    // the same, over several nodes
  int most_ranks = 1;
  std::vector<std::string> left_out;
};

// Messages of at least kSmallestMessage; curves weigh alike, samples 1 on average.  Throws Error
// for one that is faster than the links of a node can be, and for more than can be fitted.
BenchmarkedCollectives benchmarked_collectives(std::span<const hwdb::BenchmarkFile> files,
                                               const sim::Cluster& node);

// Bytes/s of copies that are larger than the last-level cache; of copies over the host link.
std::vector<Repeated> memory_rates(std::span<const hwdb::BenchmarkFile> files,
                                   const sim::Device& device);
std::vector<Repeated> host_rates(std::span<const hwdb::BenchmarkFile> files);

// Clocks of devices under load over those of GEMMs (benchmark_fit.h), one for each device and log.
struct LoadedClocks {
  std::vector<Repeated> clocks;
  std::size_t readings = 0;  // under load
  std::string over;          // "the clock of the GEMMs"
  std::optional<double> watts, limit_watts;
};
LoadedClocks loaded_clocks(std::span<const hwdb::BenchmarkFile> files);

}  // namespace llmsim::calibrate
