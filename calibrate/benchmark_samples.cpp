#include "calibrate/benchmark_samples.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "calibrate/library_fit.h"
#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using hwdb::BenchmarkFile;
using sim::DType;

constexpr std::size_t kMostShapes = 20'000;
// Short GEMMs run at the boost clock, a tenth above that of the data sheet's peak (H100: 1980 over
// 1830 MHz).
constexpr double kMostOfPeak = 1.15;
// Switches that add let an all-reduce run above its link (sim/cost/collective.h: 1.30).
constexpr double kMostOfLink = 1.5;
constexpr double kBusy = 0.9, kOfHighestPower = 0.6;

void check_rate(const BenchmarkFile& file, const hwdb::MeasuredKernel& kernel,
                const sim::Device& device) {
  const sim::FlopsPerSecond rate = kernel.op.flops / kernel.median,
                            peak = device.matrix_peak[static_cast<std::size_t>(kernel.op.dtype)];
  if (peak.value() > 0.0 && rate > kMostOfPeak * peak)
    throw Error(fmt::format(
        "{}: {} in {}: {:.0f} TFLOPS are above the peak of {}, {:.0f}; sparse matrices, another "
        "device or another format?",
        file.file, kernel.label, name_of(kernel.op.dtype), rate / sim::TFLOPS, device.id,
        peak / sim::TFLOPS));
}

using CurveKey = std::tuple<sim::CollectiveKind, int, int>;  // kind, ranks, nodes
using Curve = std::map<double, std::vector<double>>;         // seconds by bytes

void check_rate(const BenchmarkFile& file, const hwdb::MeasuredCollective& one,
                const sim::Cluster& node) {
  const sim::BytesPerSecond rate = sim::bus_factor(one.kind, one.ranks) * one.message / one.median;
  const sim::BytesPerSecond link = node.fabric.device_bandwidth;
  if (link.value() > 0.0 && rate > kMostOfLink * link)
    throw Error(fmt::format(
        "{}: {} of {:.0f} bytes over {} ranks: a bus bandwidth of {:.0f} GB/s is above what a "
        "link of {} has, {:.0f}; another device?",
        file.file, name_of(one.kind), one.message.value(), one.ranks, rate / sim::GBps,
        node.device.id, link / sim::GBps));
}

// None of what is fitted; a reason otherwise.
std::optional<std::string> why_not(const hwdb::MeasuredCollective& one, const sim::Cluster& node) {
  if (one.nodes == 1 && one.ranks > node.devices_per_node)
    return fmt::format("{} ranks on one host, where nodes of {} have {} devices", one.ranks,
                       node.device.id, node.devices_per_node);
  if (one.nodes == 1) return std::nullopt;
  if (one.ranks_per_node != node.devices_per_node)
    return fmt::format("{} ranks on each of {} nodes do not use all adapters of a node",
                       one.ranks_per_node, one.nodes);
  if (one.kind == sim::CollectiveKind::SendRecv)
    return "a ring of send-receives crosses nodes in one pair of each alone";
  return std::nullopt;
}

std::vector<CollectiveSample>& list_of(BenchmarkedCollectives& all, const CurveKey& key) {
  const auto [kind, ranks, nodes] = key;
  if (nodes == 1) return all.one_node;
  return kind == sim::CollectiveKind::AllToAll ? all.all_to_alls : all.several_nodes;
}

// Mean weight 1: a prior's deviation is weighed against those of samples.
void normalise(std::vector<CollectiveSample>& samples) {
  double weights = 0.0;
  for (const CollectiveSample& sample : samples) weights += sample.weight;
  for (CollectiveSample& sample : samples)
    sample.weight *= static_cast<double>(samples.size()) / weights;
}

double highest(const std::vector<const hwdb::ClockReading*>& readings,
               std::optional<double> hwdb::ClockReading::*value) {
  double most = 0.0;
  for (const hwdb::ClockReading* one : readings) most = std::max(most, (one->*value).value_or(0.0));
  return most;
}

// Readings of one device in one log.
struct DeviceLog {
  std::vector<const hwdb::ClockReading*> all, loaded;

  explicit DeviceLog(std::vector<const hwdb::ClockReading*> readings) : all(std::move(readings)) {
    const double most_watts = highest(all, &hwdb::ClockReading::watts);
    for (const hwdb::ClockReading* one : all) {
      const bool busy = one->busy.value_or(1.0) >= kBusy;
      if (busy && one->watts.value_or(most_watts) >= kOfHighestPower * most_watts)
        loaded.push_back(one);
    }
  }

  double loaded_clock() const {
    std::vector<double> clocks;
    for (const hwdb::ClockReading* one : loaded) clocks.push_back(one->clock_hz);
    return median(clocks);
  }
  double highest_clock() const {
    double most = 0.0;
    for (const hwdb::ClockReading* one : all) most = std::max(most, one->clock_hz);
    return most;
  }
  double highest_possible() const { return highest(all, &hwdb::ClockReading::most_hz); }
};

std::vector<DeviceLog> device_logs(const BenchmarkFile& file) {
  std::map<std::string, std::vector<const hwdb::ClockReading*>> by_device;
  for (const hwdb::ClockReading& reading : file.clocks)
    by_device[reading.device].push_back(&reading);
  std::vector<DeviceLog> logs;
  for (auto& [device, readings] : by_device) logs.emplace_back(std::move(readings));
  return logs;
}

std::vector<double> gemm_clocks(std::span<const BenchmarkFile> files) {
  std::vector<double> clocks;
  for (const BenchmarkFile& file : files)
    for (const hwdb::MeasuredKernel& kernel : file.kernels)
      if (kernel.library == "library_gemm" && kernel.clock_hz) clocks.push_back(*kernel.clock_hz);
  return clocks;
}

std::optional<double> loaded_median(const std::vector<DeviceLog>& logs,
                                    std::optional<double> hwdb::ClockReading::*value) {
  std::vector<double> values;
  for (const DeviceLog& log : logs)
    for (const hwdb::ClockReading* one : log.loaded)
      if (one->*value) values.push_back(*(one->*value));
  return median_if_any(values);
}

}  // namespace

std::vector<GemmSample> benchmarked_gemms(std::span<const BenchmarkFile> files,
                                          const sim::Device& device, DType dtype) {
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, double>;
  std::map<Shape, std::pair<sim::Operator, std::vector<double>>> shapes;
  for (const BenchmarkFile& file : files) {
    hwdb::RuntimeResults rows;
    rows.kernels = file.kernels;
    for (const hwdb::MeasuredKernel& kernel : file.kernels)
      if (kernel.library == "library_gemm") check_rate(file, kernel, device);
    for (const GemmSample& one : library_gemms(rows, dtype)) {
      const sim::Operator& op = one.gemm;
      auto& [gemm, times] = shapes[{op.batch, op.m, op.n, op.k, op.moved.value()}];
      gemm = op;
      times.push_back(one.time.value());
    }
  }
  if (shapes.size() > kMostShapes)
    throw Error(fmt::format("{} shapes of GEMMs in {}: at most {} can be fitted", shapes.size(),
                            name_of(dtype), kMostShapes));
  std::vector<GemmSample> samples;
  for (const auto& [shape, measured] : shapes)
    samples.push_back({.gemm = measured.first, .time = sim::Seconds(median(measured.second))});
  return samples;
}

BenchmarkedCollectives benchmarked_collectives(std::span<const BenchmarkFile> files,
                                               const sim::Cluster& node) {
  BenchmarkedCollectives result;
  std::map<CurveKey, Curve> curves;
  std::set<std::string> reasons;
  for (const BenchmarkFile& file : files) {
    for (const hwdb::MeasuredCollective& one : file.collectives) {
      if (const auto why = why_not(one, node)) {
        if (reasons.insert(file.file + ": " + *why).second)
          result.left_out.push_back(file.file + ": " + *why);
        continue;
      }
      check_rate(file, one, node);
      if (one.message < kSmallestMessage) continue;
      curves[{one.kind, one.ranks, one.nodes}][one.message.value()].push_back(one.median.value());
      result.most_ranks = std::max(result.most_ranks, one.ranks);
    }
  }
  std::size_t messages = 0;
  for (const auto& [key, curve] : curves) messages += curve.size();
  if (messages > kMostShapes)
    throw Error(
        fmt::format("{} messages of collectives: at most {} can be fitted", messages, kMostShapes));
  for (const auto& [key, curve] : curves) {
    for (const auto& [bytes, times] : curve)
      list_of(result, key)
          .push_back({.kind = std::get<0>(key),
                      .message = sim::Bytes(bytes),
                      .time = sim::Seconds(median(times)),
                      .ranks = std::get<1>(key),
                      .weight = 1.0 / static_cast<double>(curve.size())});
  }
  for (auto* list : {&result.one_node, &result.several_nodes, &result.all_to_alls})
    normalise(*list);
  return result;
}

std::vector<Repeated> memory_rates(std::span<const BenchmarkFile> files,
                                   const sim::Device& device) {
  std::vector<Repeated> rates;
  for (const BenchmarkFile& file : files) {
    for (const hwdb::MeasuredKernel& kernel : file.kernels) {
      if (kernel.library != "stream_copy" || kernel.op.moved < sim::kCopyOfMemory * device.cache)
        continue;
      const double rate = (kernel.op.moved / kernel.median).value();
      if (rate > device.memory_bandwidth.value())
        throw Error(fmt::format(
            "{}: {}: {:.0f} GB/s are above the memory bandwidth of {}, {:.0f}; another device, or "
            "arrays that its cache holds?",
            file.file, kernel.label, rate * 1e-9, device.id, device.memory_bandwidth / sim::GBps));
      rates.push_back({rate, kernel.spread * rate});
    }
  }
  return rates;
}

std::vector<Repeated> host_rates(std::span<const BenchmarkFile> files) {
  std::vector<Repeated> rates;
  for (const BenchmarkFile& file : files) {
    hwdb::RuntimeResults rows;
    rows.kernels = file.kernels;
    for (const Repeated& rate : host_link_rates(rows)) rates.push_back(rate);
  }
  return rates;
}

LoadedClocks loaded_clocks(std::span<const BenchmarkFile> files) {
  LoadedClocks result;
  std::vector<DeviceLog> logs;
  for (const BenchmarkFile& file : files)
    for (DeviceLog& log : device_logs(file))
      if (!log.loaded.empty()) logs.push_back(std::move(log));
  const std::optional<double> of_gemms = median_if_any(gemm_clocks(files));
  for (const DeviceLog& log : logs) {
    const double possible = log.highest_possible();
    const double over = of_gemms ? *of_gemms : possible > 0.0 ? possible : log.highest_clock();
    result.over = of_gemms         ? "the clock of the GEMMs"
                  : possible > 0.0 ? "the highest clock of the device"
                                   : "the highest clock of its log";
    result.clocks.push_back({std::min(1.0, log.loaded_clock() / over), 0.0});
    result.readings += log.loaded.size();
  }
  result.watts = loaded_median(logs, &hwdb::ClockReading::watts);
  result.limit_watts = loaded_median(logs, &hwdb::ClockReading::limit_watts);
  return result;
}

}  // namespace llmsim::calibrate
