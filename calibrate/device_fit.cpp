#include "calibrate/device_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "calibrate/attention_fit.h"
#include "calibrate/collective_fit.h"
#include "calibrate/gemm_fit.h"
#include "sim/base/error.h"
#include "sim/cost/streaming.h"

namespace llmsim::calibrate {
namespace {

using hwdb::MeasuredKernel;
using sim::DType;
using sim::OperatorKind;
using sim::Seconds;

constexpr double kStreamsFrom = 4.0;  // caches
// Rows of a CPU's innermost tile.
constexpr int kVectorRows = 8;
constexpr double kHeadroom = 1.02;  // peak over the best product: a fit may find a little more
// Copies whose size is within this of the largest, where the cache is unknown.
constexpr double kNearLargest = 8.0;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

class DeviceFitting {
 public:
  explicit DeviceFitting(const hwdb::RuntimeResults& results) : results_(results) {
    const hwdb::MeasuredMachine& machine = results.machine;
    sim::Device& device = fit_.device;
    device.id = machine.id;
    device.name = machine.name;
    device.memory = device.usable_memory = machine.memory;
    device.cache = machine.last_level_cache;
    device.compute_units = machine.kind == "cpu" ? machine.threads : 1;
    source_ = "llmsim-runtime on " + machine.name + ", " + std::to_string(machine.threads) + " threads, libtorch " +
              machine.libtorch + ", " + machine.date;
  }

  DeviceFit fit() {
    fit_memory();
    fit_launch();
    for (const DType dtype : measured_formats()) fit_products(dtype);
    for (const DType dtype : measured_formats()) fit_attention_kernel(dtype);
    fit_streaming();
    if (!results_.collectives.empty()) fit_collectives();
    return std::move(fit_);
  }

 private:
  void put(const std::string& key, double value, std::optional<double> standard_error = {}) {
    fit_.coefficients.push_back({.scope = "device",
                                 .id = fit_.device.id,
                                 .key = key,
                                 .value = value,
                                 .standard_error = standard_error,
                                 .evidence = sim::Evidence::Fitted,
                                 .source = source_,
                                 .fitted_from = results_.file});
  }

  void fit_memory() {
    const double from = streams_from();
    std::vector<double> rates;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (kernel.library == "stream_copy" && kernel.op.moved.value() >= from)
        rates.push_back((kernel.op.moved / kernel.median).value());
    }
    if (rates.empty()) throw Error(results_.file + ": no copies larger than the last-level cache; measure with --kernels first");
    fit_.device.memory_bandwidth = sim::BytesPerSecond(median(rates));
    fit_.device.achieved.memory_fraction = 1.0;
    put("memory_fraction", 1.0);
    put("host_memory_bytes_per_s", fit_.device.memory_bandwidth.value());
  }

  double streams_from() const {
    if (fit_.device.cache > sim::Bytes(0.0)) return kStreamsFrom * fit_.device.cache.value();
    double largest = 0.0;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (kernel.library == "stream_copy") largest = std::max(largest, kernel.op.moved.value());
    }
    return largest / kNearLargest;
  }

  void fit_launch() {
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (kernel.library != "launch") continue;
      fit_.device.achieved.kernel_time = kernel.median / kernel.op.kernels;
      put("kernel_time_s", fit_.device.achieved.kernel_time.value());
    }
  }

  std::set<DType> measured_formats() const {
    std::set<DType> formats;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (kernel.library.empty() && kernel.op.kind == OperatorKind::Gemm) formats.insert(kernel.op.dtype);
    }
    if (formats.empty()) throw Error(results_.file + ": no products; measure with --kernels first");
    return formats;
  }

  void fit_products(DType dtype) {
    std::vector<GemmSample> samples;
    double best = 0.0;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (!kernel.library.empty() || kernel.op.kind != OperatorKind::Gemm || kernel.op.dtype != dtype) continue;
      samples.push_back({.product = kernel.op, .time = kernel.median});
      best = std::max(best, (kernel.op.flops / kernel.median).value());
    }
    sim::Device& device = fit_.device;
    device.matrix_peak[static_cast<std::size_t>(dtype)] = sim::FlopsPerSecond(kHeadroom * best);
    if (dtype == DType::Fp32) device.vector_peak = sim::FlopsPerSecond(kHeadroom * best);
    sim::GemmCoefficients& coefficients = device.achieved.gemm[static_cast<std::size_t>(dtype)];
    coefficients.alignment = 1;
    coefficients.smallest_tile = results_.machine.kind == "cpu" ? kVectorRows : sim::GemmCoefficients{}.smallest_tile;
    const sim::GemmMachine machine = sim::gemm_machine(device, dtype);
    const GemmPrior prior{.max_efficiency = {0.9, 1.0},
                          .k_half = {30.0, 1.0},
                          .wave_quantisation = {0.1, 1.0},
                          .kernel_time = {device.achieved.kernel_time.value() * 2.0, 1.0},
                          .weight_gradient_factor = {0.94, 0.3}};
    const GemmFit fit = fit_gemm(machine, prior, samples);
    coefficients = fit.coefficients;
    const std::string prefix = std::string("gemm.") + name_of(dtype) + ".";
    for (const FittedValue& value : fit.values) put(prefix + value.name, value.value, value.standard_error);
    put(prefix + "alignment", coefficients.alignment);
    put(prefix + "smallest_tile", coefficients.smallest_tile);
    note("gemm", dtype, gemm_log_errors(sim::gemm_machine(device, dtype), samples));
  }

  static sim::AttentionKernel kernel_of(DType dtype) {
    return dtype == DType::Fp32 ? sim::AttentionKernel::BlockwiseFp32 : sim::AttentionKernel::Blockwise;
  }

  void fit_attention_kernel(DType dtype) {
    std::vector<AttentionSample> samples;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (!kernel.library.empty() || kernel.op.kind != OperatorKind::Attention || kernel.op.dtype != dtype) continue;
      AttentionSample sample{.forward = kernel.op, .time = kernel.median};
      sample.forward.repeats = 1.0;
      if (kernel.backward) {  // twice the FLOPs and bytes of forward
        sample.pass = AttentionPass::Backward;
        sample.forward.flops /= 2.0;
        sample.forward.moved /= 2.0;
      }
      samples.push_back(sample);
    }
    if (samples.empty()) return;
    sim::Device& device = fit_.device;
    const AttentionFit fit = fit_attention(sim::attention_machine(device, dtype, kernel_of(dtype)), samples);
    device.achieved.attention[static_cast<std::size_t>(kernel_of(dtype))] = fit.coefficients;
    for (const FittedValue& value : fit.values) {
      put(std::string("attention.") + name_of(kernel_of(dtype)) + "." + value.name, value.value, value.standard_error);
    }
    note_attention(dtype);
  }

  void note_attention(DType dtype) {
    const sim::AttentionMachine machine = sim::attention_machine(fit_.device, dtype, kernel_of(dtype));
    std::vector<double> errors;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (!kernel.library.empty() || kernel.op.kind != OperatorKind::Attention || kernel.op.dtype != dtype) continue;
      errors.push_back(std::log(attention_time(kernel.op, kernel.backward, machine) / kernel.median));
    }
    note("attention", dtype, errors);
  }

  using StreamingGroup = std::tuple<DType, sim::StreamingKernel, bool>;

  void fit_streaming() {
    std::map<StreamingGroup, std::vector<const MeasuredKernel*>> groups;
    for (const MeasuredKernel& kernel : results_.kernels) {
      if (kernel.streaming) groups[{kernel.op.dtype, *kernel.streaming, kernel.backward}].push_back(&kernel);
    }
    for (const auto& [group, kernels] : groups) fit_streaming_group(group, kernels);
  }

  // Relative to memory; none where the launches alone take longer.
  std::optional<double> rate_of(const MeasuredKernel& kernel) const {
    const Seconds moving = kernel.median - kernel.op.kernels * fit_.device.achieved.kernel_time;
    if (moving <= 0.2 * kernel.median) return std::nullopt;
    return kernel.op.moved / moving / fit_.device.memory_bandwidth;
  }

  Seconds streamed_time(const MeasuredKernel& kernel, const sim::StreamingRate& rate) const {
    const double relative = sim::relative_rate(rate, kernel.op.moved, fit_.device.cache);
    return kernel.op.moved / (relative * fit_.device.memory_bandwidth) + kernel.op.kernels * fit_.device.achieved.kernel_time;
  }

  void fit_streaming_group(const StreamingGroup& group, const std::vector<const MeasuredKernel*>& kernels) {
    const auto [dtype, kind, backward] = group;
    std::vector<double> cached, streamed;
    for (const MeasuredKernel* kernel : kernels) {
      const std::optional<double> rate = rate_of(*kernel);
      if (!rate) continue;
      (sim::streamed_share(kernel->op.moved, fit_.device.cache) < 0.5 ? cached : streamed).push_back(*rate);
    }
    if (cached.empty() && streamed.empty()) return;
    const double streamed_rate = median(streamed.empty() ? cached : streamed);
    const double cached_rate = median(cached.empty() ? streamed : cached);
    sim::StreamingRates& rates = fit_.device.achieved.streaming[static_cast<std::size_t>(dtype)];
    (backward ? rates.backward : rates.forward)[static_cast<std::size_t>(kind)] = {.cached = cached_rate,
                                                                                   .streamed = streamed_rate};
    const std::string pass = backward ? "backward" : "forward";
    const std::string key = std::string("streaming.") + name_of(dtype) + "." + name_of(kind) + "." + pass;
    put(key, streamed_rate);
    put(key + "_cached", cached_rate);
    std::vector<double> errors;
    for (const MeasuredKernel* kernel : kernels)
      errors.push_back(std::log(streamed_time(*kernel, {cached_rate, streamed_rate}) / kernel->median));
    note(std::string(name_of(kind)) + " " + pass, dtype, errors);
  }

  // Of the largest groups on one node.
  void fit_collectives() {
    std::vector<CollectiveSample> samples;
    double best = 0.0;
    for (const hwdb::MeasuredCollective& one : results_.collectives) {
      if (one.nodes != 1 || one.ranks != one.ranks_per_node || one.dtype != DType::Fp32) continue;
      samples.push_back({.kind = one.kind, .message = one.message, .time = one.median, .ranks = one.ranks});
      best = std::max(best, (one.message / one.median).value());
      fit_.ranks_per_node = one.ranks_per_node;
    }
    if (samples.empty()) return;
    fit_.fabric = sim::BytesPerSecond(best);
    sim::Cluster cluster;
    cluster.device = fit_.device;
    cluster.num_devices = cluster.devices_per_node = fit_.ranks_per_node;
    cluster.fabric.kind = sim::FabricKind::Host;
    cluster.fabric.devices = fit_.ranks_per_node;
    cluster.fabric.device_bandwidth = fit_.fabric;
    const CollectiveFit fit = fit_fabric(cluster, samples);
    for (const FittedValue& value : fit.values) put(value.name, value.value, value.standard_error);
    fit_.quality.push_back(
        {.what = "collectives", .samples = static_cast<int>(fit.samples), .median_error = std::expm1(fit.median_abs_error)});
  }

  void note(const std::string& what, DType dtype, const std::vector<double>& log_errors) {
    std::vector<double> errors;
    for (const double error : log_errors) errors.push_back(std::abs(std::exp(error) - 1.0));
    fit_.quality.push_back(
        {.what = what + " " + name_of(dtype), .samples = static_cast<int>(errors.size()), .median_error = median(errors)});
  }

  const hwdb::RuntimeResults& results_;
  std::string source_;
  DeviceFit fit_;
};

}  // namespace

DeviceFit fit_device(const hwdb::RuntimeResults& results) { return DeviceFitting(results).fit(); }

}  // namespace llmsim::calibrate
