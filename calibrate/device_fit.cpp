#include "calibrate/device_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "calibrate/attention_fit.h"
#include "calibrate/collective_fit.h"
#include "calibrate/figure.h"
#include "calibrate/gemm_fit.h"
#include "calibrate/library_fit.h"
#include "calibrate/statistics.h"
#include "hwdb/hardware/coefficients.h"
#include "sim/base/error.h"
#include "sim/cost/kernels.h"

namespace llmsim::calibrate {
namespace {

using hwdb::MeasuredKernel;
using sim::DType;
using sim::OperatorKind;
using sim::Seconds;

// Rows of a CPU's innermost tile.
constexpr int kVectorRows = 8;
constexpr double kHeadroom = 1.02;  // peak over the best GEMM: a fit may find a little more
// Copies whose size is within this of the largest, where the cache is unknown.
constexpr double kNearLargest = 8.0;

// The device as far as it is fitted.
struct Fitting {
  const hwdb::RuntimeResults& results;
  DeviceFit fit;
  std::string source;
  double efficiency = 1.0;  // of these kernels' rates, what predictions of steps will take

  bool is_host() const { return results.machine.kind == "cpu"; }
};

std::string what_ran(const hwdb::MeasuredMachine& machine) {
  if (machine.kind == "cpu") return std::to_string(machine.threads) + " threads";
  return machine.driver.empty() ? machine.kind : "driver " + machine.driver;
}

Fitting fitting_of(const hwdb::RuntimeResults& results) {
  const hwdb::MeasuredMachine& machine = results.machine;
  Fitting f{.results = results,
            .fit = {},
            .source = "llmsim-runtime on " + machine.name + ", " + what_ran(machine) +
                      ", libtorch " + machine.libtorch + ", " + machine.date};
  sim::Device& device = f.fit.device;
  device.id = machine.id;
  device.name = machine.name;
  device.memory = device.usable_memory = machine.memory;
  device.cache = machine.last_level_cache;
  device.compute_units = f.is_host() ? machine.threads : std::max(1, machine.compute_units);
  if (f.is_host()) f.fit.fabric_kind = sim::FabricKind::Loopback;
  return f;
}

using MemoryBoundGroup = std::tuple<DType, sim::MemoryBoundKernel, bool>;

// A value that no device can have comes of a few samples on a busy machine, and costs no other.
double within_range(Fitting& f, const std::string& key, double value) {
  const auto range = hwdb::coefficient_range(key);
  if (!range || (value >= range->least && value <= range->most)) return value;
  const double taken = std::clamp(value, range->least, range->most);
  f.fit.notes.push_back(fmt::format(
      "{}: {:.3g} was measured, which no device has; {:.3g} is taken: measure again, alone on the "
      "machine",
      key, value, taken));
  return taken;
}

void put(Fitting& f, const std::string& key, const Figure& fitted) {
  f.fit.coefficients.push_back({.scope = "device",
                                .id = f.fit.device.id,
                                .key = key,
                                .value = within_range(f, key, fitted.value),
                                .standard_error = fitted.standard_error,
                                .evidence = sim::Evidence::Fitted,
                                .source = f.source,
                                .fitted_from = f.results.file});
}

bool is_copy(const MeasuredKernel& kernel) { return kernel.library == "stream_copy"; }

void note_small_copies(Fitting& f, sim::Bytes largest, sim::Bytes cache) {
  f.fit.notes.push_back(
      fmt::format("memory bandwidth: of copies that move {:.0f} MiB, which the last-level cache of "
                  "{:.0f} MiB holds in part; larger ones were not measured",
                  largest / sim::MiB, cache / sim::MiB));
}

// Bytes that a copy of memory moves at least.
double streams_from(Fitting& f) {
  sim::Bytes largest;
  for (const MeasuredKernel& kernel : f.results.kernels) {
    if (is_copy(kernel)) largest = std::max(largest, kernel.op.moved);
  }
  const sim::Bytes cache = f.fit.device.cache;
  if (cache <= sim::Bytes(0.0)) return largest.value() / kNearLargest;
  if (largest < sim::kCopyOfMemory * cache) note_small_copies(f, largest, cache);
  return std::min(largest, sim::kCopyOfMemory * cache).value();
}

void fit_memory(Fitting& f) {
  if (std::ranges::none_of(f.results.kernels, is_copy))
    throw Error(f.results.file + ": no copies; measure with --kernels first");
  const double from = streams_from(f);
  std::vector<Repeated> rates;
  for (const MeasuredKernel& kernel : f.results.kernels) {
    const double rate = (kernel.op.moved / kernel.median).value();
    if (is_copy(kernel) && kernel.op.moved.value() >= from)
      rates.push_back({rate, kernel.spread * rate});
  }
  const Figure bandwidth = figure(rates);
  f.fit.device.memory_bandwidth = sim::BytesPerSecond(bandwidth.value);
  f.fit.device.achieved.memory_fraction = 1.0;
  const auto& error = bandwidth.standard_error;
  put(f, "memory_fraction", {1.0, error ? std::optional(*error / bandwidth.value) : std::nullopt});
  put(f, "host_memory_bytes_per_s", bandwidth);
}

void fit_launch(Fitting& f) {
  for (const MeasuredKernel& kernel : f.results.kernels) {
    if (kernel.library != "launch") continue;
    f.fit.device.achieved.kernel_time = kernel.median / kernel.op.kernels;
    const double time = f.fit.device.achieved.kernel_time.value();
    put(f, "kernel_time_s", figure({{time, kernel.spread * time}}));
  }
}

std::set<DType> measured_formats(const Fitting& f) {
  std::set<DType> formats;
  for (const MeasuredKernel& kernel : f.results.kernels) {
    const bool counts = kernel.library.empty() || kernel.library == "library_gemm";
    if (counts && kernel.op.kind == OperatorKind::Gemm) formats.insert(kernel.op.dtype);
  }
  if (formats.empty()) throw Error(f.results.file + ": no GEMMs; measure with --kernels first");
  return formats;
}

void note(Fitting& f, const std::string& what, DType dtype, const std::vector<double>& log_errors) {
  std::vector<double> errors;
  for (const double error : log_errors) errors.push_back(std::abs(std::exp(error) - 1.0));
  f.fit.quality.push_back({.what = what + " " + name_of(dtype),
                           .samples = static_cast<int>(errors.size()),
                           .median_error = median(errors)});
}

// Of the program itself, not of a library.
std::vector<MeasuredKernel> kernels_of(const Fitting& f, OperatorKind kind, DType dtype) {
  std::vector<MeasuredKernel> kernels = f.results.kernels;
  std::erase_if(kernels, [&](const MeasuredKernel& kernel) {
    return !kernel.library.empty() || kernel.op.kind != kind || kernel.op.dtype != dtype;
  });
  return kernels;
}

// Outside the matrix units, and on CPUs, rows may begin anywhere.
int alignment_of(const Fitting& f, DType dtype) {
  return f.is_host() || dtype == DType::Fp32 ? 1 : row_alignment(dtype);
}

void fit_misaligned(Fitting& f, DType dtype) {
  const MisalignedRates rates =
      misaligned_rates(f.results, dtype, sim::gemm_machine(f.fit.device, dtype));
  if (alignment_of(f, dtype) == 1 || rates.odd.empty()) return;
  sim::GemmCoefficients& gemm = f.fit.device.achieved.gemm[static_cast<std::size_t>(dtype)];
  const std::string prefix = std::string("gemm.") + name_of(dtype) + ".";
  const Figure odd = figure(rates.odd);
  gemm.misaligned_factor = std::min(1.0, odd.value);
  put(f, prefix + "misaligned_factor", {gemm.misaligned_factor, odd.standard_error});
  if (rates.even.empty()) return;
  const Figure even = figure(rates.even);
  gemm.even_rows_gain = std::max(1.0, even.value / odd.value);
  put(f, prefix + "even_rows_gain",
      {gemm.even_rows_gain,
       even.standard_error ? std::optional(*even.standard_error / odd.value) : std::nullopt});
}

// An accelerator waits for its host between short GEMMs, and where one operator is many of them:
// what takes a few launches says how fast the host is.
bool tells_of_units(const Fitting& f, const GemmSample& sample) {
  if (f.is_host()) return true;
  constexpr double kLaunches = 4.0;
  return sample.gemm.batch == 1 && sample.time > kLaunches * f.fit.device.achieved.kernel_time;
}

void fit_gemms(Fitting& f, DType dtype) {
  std::vector<GemmSample> samples = library_gemms(f.results, dtype);
  for (const MeasuredKernel& kernel : kernels_of(f, OperatorKind::Gemm, dtype))
    samples.push_back({.gemm = kernel.op, .time = kernel.median});
  std::erase_if(samples, [&](const GemmSample& one) { return !tells_of_units(f, one); });
  double best = 0.0;
  for (const GemmSample& sample : samples)
    best = std::max(best, (sample.gemm.flops / sample.time).value());
  sim::Device& device = f.fit.device;
  device.matrix_peak[static_cast<std::size_t>(dtype)] = sim::FlopsPerSecond(kHeadroom * best);
  if (dtype == DType::Fp32) device.vector_peak = sim::FlopsPerSecond(kHeadroom * best);
  sim::GemmCoefficients& coefficients = device.achieved.gemm[static_cast<std::size_t>(dtype)];
  coefficients.alignment = alignment_of(f, dtype);
  coefficients.smallest_tile = f.is_host() ? kVectorRows : sim::GemmCoefficients{}.smallest_tile;
  const sim::GemmMachine machine = sim::gemm_machine(device, dtype);
  const GemmPrior prior{.max_efficiency = {0.9, 1.0},
                        .k_half = {30.0, 1.0},
                        .wave_quantisation = {0.1, 1.0},
                        .kernel_time = {device.achieved.kernel_time.value() * 2.0, 1.0},
                        .weight_gradient_factor = {0.94, 0.3},
                        // Accelerators have kernels for every layout.
                        .transposed_factor = {1.0, f.is_host() ? 0.3 : 0.0}};
  GemmFit fit = fit_gemm(machine, prior, samples);
  // The peak is what GEMMs reach: where all of them fall short by something else, it is higher.
  const double above = std::max(1.0, fit.coefficients.max_efficiency);
  device.matrix_peak[static_cast<std::size_t>(dtype)] *= above;
  fit.coefficients.max_efficiency /= above;
  for (FittedValue& value : fit.values)
    if (value.name == "max_efficiency") value.value /= above, value.standard_error /= above;
  coefficients = fit.coefficients;
  const std::string prefix = std::string("gemm.") + name_of(dtype) + ".";
  for (const FittedValue& value : fit.values)
    put(f, prefix + value.name, {value.value, value.standard_error});
  put(f, prefix + "alignment", {static_cast<double>(coefficients.alignment), {}});
  put(f, prefix + "smallest_tile", {static_cast<double>(coefficients.smallest_tile), {}});
  note(f, "gemm", dtype, gemm_log_errors(sim::gemm_machine(device, dtype), samples));
  fit_misaligned(f, dtype);
}

sim::AttentionKernel own_kernel(DType dtype) {
  return dtype == DType::Fp32 ? sim::AttentionKernel::BlockwiseFp32
                              : sim::AttentionKernel::Blockwise;
}

void note_attention(Fitting& f, DType dtype, sim::AttentionKernel kernel,
                    const std::vector<AttentionSample>& samples) {
  const sim::AttentionMachine machine = sim::attention_machine(f.fit.device, dtype, kernel);
  std::vector<double> errors;
  for (const AttentionSample& sample : samples)
    errors.push_back(std::log(predicted_time(sample, machine) / sample.time));
  note(f, std::string("attention ") + name_of(kernel), dtype, errors);
}

void fit_attention_kernel(Fitting& f, DType dtype, sim::AttentionKernel kernel,
                          const std::string& implementation) {
  const std::vector<AttentionSample> samples = attention_samples(f.results, dtype, implementation);
  if (samples.empty()) return;
  sim::Device& device = f.fit.device;
  const AttentionFit fit = fit_attention(sim::attention_machine(device, dtype, kernel), samples);
  device.achieved.attention[static_cast<std::size_t>(kernel)] = fit.coefficients;
  for (const FittedValue& value : fit.values) {
    put(f, std::string("attention.") + name_of(kernel) + "." + value.name,
        {value.value, value.standard_error});
  }
  note_attention(f, dtype, kernel, samples);
}

void fit_attention_kernels(Fitting& f, DType dtype) {
  fit_attention_kernel(f, dtype, own_kernel(dtype), "blockwise");
  if (dtype != DType::Bf16) return;
  fit_attention_kernel(f, dtype, sim::AttentionKernel::Flash2, "flash");
  fit_attention_kernel(f, dtype, sim::AttentionKernel::Cudnn, "cudnn");
}

// Steps run hotter than kernels that are measured alone.
void fit_sustained(Fitting& f) {
  if (!measured_formats(f).contains(DType::Bf16)) return;
  const std::vector<Repeated> rates =
      sustained_clocks(f.results, sim::gemm_machine(f.fit.device, DType::Bf16));
  if (rates.empty()) return;
  const Figure clock = figure(rates);
  f.fit.device.achieved.sustained_clock = clock.value;
  put(f, "sustained_clock", clock);
}

void fit_training_rate(Fitting& f) {
  if (f.efficiency == 1.0) return;
  f.fit.device.achieved.training_rate = 1.0 / f.efficiency;
  put(f, "training_rate", {f.fit.device.achieved.training_rate, {}});
}

void fit_host_link(Fitting& f) {
  const std::vector<Repeated> rates = host_link_rates(f.results);
  if (f.is_host() || rates.empty()) return;
  const Figure link = figure(rates);
  f.fit.device.host_bandwidth = sim::BytesPerSecond(link.value);
  put(f, "host_bytes_per_s", link);
}

// Relative to memory; none where the launches alone take longer.
std::optional<double> rate_of(const Fitting& f, const MeasuredKernel& kernel) {
  const Seconds moving = kernel.median - kernel.op.kernels * f.fit.device.achieved.kernel_time;
  if (moving <= 0.2 * kernel.median) return std::nullopt;
  return kernel.op.moved / moving / f.fit.device.memory_bandwidth;
}

Figure relative_to(double efficiency, const Figure& rate) {
  const auto& error = rate.standard_error;
  return {rate.value / efficiency, error ? std::optional(*error / efficiency) : std::nullopt};
}

void fit_memory_bound_group(Fitting& f, const MemoryBoundGroup& group,
                            const std::vector<const MeasuredKernel*>& kernels) {
  const auto [dtype, kind, backward] = group;
  std::vector<Repeated> cached, streamed;
  for (const MeasuredKernel* kernel : kernels) {
    const std::optional<double> rate = rate_of(f, *kernel);
    if (!rate) continue;
    (sim::streamed_share(kernel->op.moved, f.fit.device.cache) < 0.5 ? cached : streamed)
        .push_back({*rate, kernel->spread * *rate});
  }
  if (cached.empty() && streamed.empty()) return;
  const Figure streamed_rate = figure(streamed.empty() ? cached : streamed);
  const Figure cached_rate = figure(cached.empty() ? streamed : cached);
  const sim::MemoryBoundRate rate{.cached = cached_rate.value, .streamed = streamed_rate.value};
  sim::MemoryBoundRates& rates =
      f.fit.device.achieved.memory_bound[static_cast<std::size_t>(dtype)];
  const Figure cached_in_steps = relative_to(f.efficiency, cached_rate);
  const Figure streamed_in_steps = relative_to(f.efficiency, streamed_rate);
  (backward ? rates.backward : rates.forward)[static_cast<std::size_t>(kind)] = {
      .cached = cached_in_steps.value, .streamed = streamed_in_steps.value};
  const std::string pass = backward ? "backward" : "forward";
  const std::string key =
      std::string("memory_bound.") + name_of(dtype) + "." + name_of(kind) + "." + pass;
  put(f, key, streamed_in_steps);
  put(f, key + "_cached", cached_in_steps);
  std::vector<double> errors;
  for (const MeasuredKernel* kernel : kernels) {
    const double relative = sim::relative_rate(rate, kernel->op.moved, f.fit.device.cache);
    const Seconds time = kernel->op.moved / (relative * f.fit.device.memory_bandwidth) +
                         kernel->op.kernels * f.fit.device.achieved.kernel_time;
    errors.push_back(std::log(time / kernel->median));
  }
  note(f, std::string(name_of(kind)) + " " + pass, dtype, errors);
}

void fit_memory_bound(Fitting& f) {
  std::map<MemoryBoundGroup, std::vector<const MeasuredKernel*>> groups;
  for (const MeasuredKernel& kernel : f.results.kernels) {
    if (kernel.memory_bound)
      groups[{kernel.op.dtype, *kernel.memory_bound, kernel.backward}].push_back(&kernel);
  }
  for (const auto& [group, kernels] : groups) fit_memory_bound_group(f, group, kernels);
}

// Processes of one host wait for time slices of its cores: small messages take one of two times,
// several times apart, and steps pay their mean.
sim::Seconds usual_time(const Fitting& f, const hwdb::MeasuredCollective& one) {
  return f.is_host() ? one.mean.value_or(one.median) : one.median;
}

// Of the largest groups on one node.  What one host's processes carry in one direction alone
// (broadcasts) tells nothing of exchanges.
std::vector<CollectiveSample> collective_samples(const Fitting& f) {
  std::vector<CollectiveSample> samples;
  for (const hwdb::MeasuredCollective& one : f.results.collectives) {
    if (one.nodes != 1 || one.ranks != one.ranks_per_node || one.dtype != DType::Fp32) continue;
    if (f.is_host() && one.kind == sim::CollectiveKind::Broadcast) continue;
    samples.push_back(
        {.kind = one.kind, .message = one.message, .time = usual_time(f, one), .ranks = one.ranks});
  }
  return samples;
}

void fit_collectives(Fitting& f) {
  const std::vector<CollectiveSample> samples = collective_samples(f);
  if (samples.empty()) return;
  for (const CollectiveSample& sample : samples) {
    f.fit.fabric = std::max(f.fit.fabric, sample.message / sample.time);
    f.fit.ranks_per_node = std::max(f.fit.ranks_per_node, sample.ranks);
  }
  sim::Cluster cluster;
  cluster.device = f.fit.device;
  cluster.num_devices = cluster.devices_per_node = f.fit.ranks_per_node;
  cluster.fabric.kind = f.fit.fabric_kind;
  cluster.fabric.devices = f.fit.ranks_per_node;
  cluster.fabric.device_bandwidth = f.fit.fabric;
  const CollectiveFit fit =
      f.is_host() ? fit_loopback(cluster, samples) : fit_fabric(cluster, samples);
  for (const FittedValue& value : fit.values)
    put(f, value.name, {value.value, value.standard_error});
  f.fit.quality.push_back({.what = "collectives",
                           .samples = static_cast<int>(fit.samples),
                           .median_error = std::expm1(fit.median_abs_error)});
}

void fit_overlap(Fitting& f) {
  std::vector<Repeated> costs;
  for (const hwdb::MeasuredOverlap& one : f.results.overlaps) {
    if (one.nodes != 1 || one.dtype != DType::Fp32) continue;
    costs.push_back(
        {one.collective_slowdown * (1.0 - 1.0 / std::max(1.0, one.gemm_slowdown)), 0.0});
  }
  if (costs.empty()) return;
  Figure cost = figure(costs);
  cost.value = std::clamp(cost.value, 0.0, 1.0);
  f.fit.device.achieved.sharing.collectives = cost.value;
  put(f, "sharing.collectives", cost);
}

// The time that each other rank adds to calls of one kind.
void fit_shared(Fitting& f, const char* kind, const char* key, double sim::HostSharing::*added) {
  std::vector<Repeated> times;
  for (const hwdb::MeasuredSharing& one : f.results.sharing) {
    if (one.kind != kind || one.ranks < 2) continue;
    const double others = one.ranks - 1.0;
    times.push_back(
        {std::max(0.0, one.slowdown - 1.0) / others, one.spread * one.slowdown / others});
  }
  if (times.empty()) return;
  const Figure time = figure(times);
  f.fit.device.achieved.sharing.*added = time.value;
  put(f, key, time);
}

void fit_sharing(Fitting& f) {
  if (!f.is_host()) return;
  fit_overlap(f);
  fit_shared(f, "gemm", "sharing.gemms", &sim::HostSharing::gemms);
  fit_shared(f, "copy", "sharing.memory_bound", &sim::HostSharing::memory_bound);
}

}  // namespace

double efficiency_of_libtorch(const hwdb::Database& database) {
  for (const hwdb::Coefficient& row : database.coefficients("framework", "libtorch"))
    if (row.key == "efficiency") return row.value;
  return 1.0;
}

DeviceFit fit_device(const hwdb::RuntimeResults& results, double efficiency) {
  Fitting f = fitting_of(results);
  if (!f.is_host()) f.efficiency = efficiency;
  fit_memory(f);
  fit_launch(f);
  for (const DType dtype : measured_formats(f)) fit_gemms(f, dtype);
  for (const DType dtype : measured_formats(f)) fit_attention_kernels(f, dtype);
  fit_sustained(f);
  fit_training_rate(f);
  fit_host_link(f);
  fit_memory_bound(f);
  fit_collectives(f);
  fit_sharing(f);
  return std::move(f.fit);
}

}  // namespace llmsim::calibrate
