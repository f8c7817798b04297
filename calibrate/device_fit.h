// A device entry of the database from what llmsim-runtime measured on it.
//
//   memory bandwidth   median rate of copies that move at least sim::kCopyOfMemory last-level
//                      caches (without a known cache, of the largest copies; where none is so
//                      large, of the largest, with a note); memory_fraction = 1, because it was
//                      measured and not promised
//   peak of a format   the best rate of any GEMM; its GEMM coefficients are fitted against that
//                      peak (gemm_fit.h)
//   attention          the blockwise kernel, in each format (attention_fit.h); on accelerators
//                      those of the library too
//   library kernels    GEMMs of every format, what misaligned rows cost, the clock of a GEMM that
//                      runs on and on, the host link (library_fit.h)
//   kernel time        of an empty kernel
//   memory-bound       rate of each kind, pass and format, cached and streamed: the median of
//     rates              moved / ((t - kernels * kernel_time) B)
//                      over the operators whose bytes fit the cache, and over the others; where
//                      only one of these was measured, it serves for both
//   training_rate      of an accelerator 1 / e, and memory-bound rates / e, where predictions of
//                      steps take e of the kernels' rates (Framework::efficiency of libtorch):
//                      fitted on shipped devices, e makes up for kernels of other programs, but
//                      kernels measured here are libtorch's own, and steps are as fast as these
//                      (hwdb/measurements).  On CPUs, where steps are slower than kernels, e holds
//   fabric             the best rate of a collective between ranks of one node; its share and
//                      latency, and on a CPU the rate of its sums, are fitted (collective_fit.h);
//                      of a CPU's collectives the mean of the repeats, else the median
//   sharing            of ranks that are processes of one host: with a collective that takes s
//                      times as long during GEMMs, which take p times as long during collectives,
//                      hiding it costs s (1 - 1/p) of its time, the median of fp32 overlaps; n
//                      ranks that do the same take 1 + (n - 1) x times as long
//                      (HostSharing in sim/cost/contention.h)
#pragma once

#include <string>
#include <vector>

#include "hwdb/runs/runtime_results.h"
#include "hwdb/store/database.h"
#include "sim/hardware/cluster.h"

namespace llmsim::calibrate {

// How well a group of operators is described.
struct FitQuality {
  std::string what;  // "gemm fp32", "attention bf16", "norm backward fp32"
  int samples = 0;
  double median_error = 0.0;  // of |predicted / measured - 1|
};

struct DeviceFit {
  sim::Device device;
  int ranks_per_node = 1;
  sim::FabricKind fabric_kind = sim::FabricKind::Host;
  // Of one rank to the others of its node; 0: no collectives were measured.
  sim::BytesPerSecond fabric{};
  std::vector<hwdb::Coefficient> coefficients;
  std::vector<FitQuality> quality;
  std::vector<std::string> notes;  // what the measurements leave open
};

// The e above.
double efficiency_of_libtorch(const hwdb::Database& database);

// `efficiency`: the e above.
// Throws Error for results without copies or without GEMMs.
DeviceFit fit_device(const hwdb::RuntimeResults& results, double efficiency = 1.0);

}  // namespace llmsim::calibrate
