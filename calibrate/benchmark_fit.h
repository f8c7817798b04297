// A device, or what a site is known by, from public benchmarks of it (hwdb/benchmarks).
//
// The device is one that ships, of which what was measured is fitted anew, from its values as
// priors.  Spreads of priors are those of a card and its libraries around the device that ships, in
// ln (of wave_quantisation in logit); ours:
//
//   GEMMs of a format   max_efficiency (0.15), k_half and wave_quantisation (0.5), kernel_time_s
//                       (0.3), to shapes with aligned rows; of a shape that was measured several
//                       times the median (gemm_fit.h).  The peak stays that of the data sheet.
//   device memory       memory_fraction (0.05): the median rate of copies that move at least
//                       sim::kCopyOfMemory last-level caches, over the data sheet's; its error is
//                       at least 2 %
//   one node            collective_fraction (0.25), fabric.latency_s (0.7), to messages of at least
//                       16 KiB (collective_fit.h), all curves alike
//   several nodes       scale_out_fraction (0.25), network.latency_s (0.7), to groups that hold all
//                       devices of their nodes; from eight all-to-alls on also what these take more
//   clock               sustained_clock (0.05): the median clock of readings under load over that
//                       of the GEMMs, where they were measured with it, else over the highest that
//                       the device can have or, where that is not known either, had in its log; its
//                       error is at least 3 % (sustained_clock.h), and it is 1 at most
//   host link           host_bytes_per_s: the median rate of large copies
//
// Residuals that are no larger than the usual misfit of the formulas, 8 %, count whole, so that few
// samples do not outvote their prior: Huber's s in least_squares.h is at least that.
//
// A reading is under load where kernels ran 90 % of the time, as far as that is known, and the
// power is at least 60 % of the highest of its log, as far as that is known.  A value with a prior
// x0 +- s0 that was measured as x +- s is  ln = (ln x0 / s0^2 + ln x / s^2) / (1 / s0^2 + 1 / s^2).
//
// A site holds two rates, as factors on what is predicted of the device that ships (site.h):
//
//   network_rate        median ln(predicted / measured) of messages of at least 1 MiB, over several
//                       nodes where these were measured; prior 0 +- 20 %
//   memory_rate         ln of memory_fraction over that of the device; prior 0 +- 10 %
//
// with the priors of site_fit.h.  It has no place for GEMMs and clocks: those are a device's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/runs/site.h"
#include "hwdb/store/database.h"

namespace llmsim::calibrate {

// A coefficient before and after the fit.
struct BenchmarkChange {
  std::string key;
  double before = 0.0, after = 0.0;
  std::optional<double> standard_error;
  std::string unit;  // "" for a ratio
};

// What was fitted together.
struct BenchmarkPart {
  std::string measured;  // "bf16 GEMMs of 1024 x 1024 x 1024 to 8192 x 8192 x 8192"
  std::size_t samples = 0;
  std::vector<BenchmarkChange> changes{};
  // Median of |predicted / measured - 1|.
  double error_before = 0.0, error_after = 0.0;
};

struct BenchmarkFit {
  std::string like;  // the id of the device that ships
  std::vector<BenchmarkPart> parts{};
  std::optional<double> power_limit{};  // W; where it is another than that of the device
  std::vector<std::string> notes{};     // what was left out, and what the measurements leave open

  std::vector<hwdb::Coefficient> coefficients(const std::string& id,
                                              const std::string& source) const;
};

// The device of the catalogue that the files name.  Throws Error where they name none, several, or
// one that is not clear; the message lists near ones.
std::string benchmarked_device(const hwdb::Database& database,
                               std::span<const hwdb::BenchmarkFile> files);

// Throws Error where nothing can be fitted, and for rates that the device cannot have.
BenchmarkFit fit_benchmarks(const hwdb::Database& database, const std::string& like,
                            std::span<const hwdb::BenchmarkFile> files);

// Throws Error for files without collectives and without copies.
hwdb::Site benchmarked_site(const hwdb::Database& database, const std::string& like,
                            std::span<const hwdb::BenchmarkFile> files, const std::string& name);

// "nccl-tests 2.19.6, NCCL 2.28.3 (all_reduce.txt); mamf-finder (mamf.txt)", for a row's source.
std::string source_of(std::span<const hwdb::BenchmarkFile> files);

}  // namespace llmsim::calibrate
