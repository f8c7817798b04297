#include "hwdb/runtime_results.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;

std::optional<sim::OperatorKind> kind_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(sim::OperatorKind::HostCopy); ++i) {
    if (name == name_of(static_cast<sim::OperatorKind>(i))) return static_cast<sim::OperatorKind>(i);
  }
  return std::nullopt;
}

std::optional<sim::StreamingKernel> streaming_kernel_named(const std::string& name) {
  for (int i = 0; i < sim::kNumStreamingKernels; ++i) {
    if (name == name_of(static_cast<sim::StreamingKernel>(i))) return static_cast<sim::StreamingKernel>(i);
  }
  return std::nullopt;
}

sim::DType dtype_named(const std::string& name) {
  for (int i = 0; i < sim::kNumDTypes; ++i) {
    if (name == name_of(static_cast<sim::DType>(i))) return static_cast<sim::DType>(i);
  }
  return sim::DType::Fp32;
}

MeasuredMachine machine_of(const json& header, const std::string& file) {
  if (header.value("type", "") != "header") throw Error(file + ":1: the header is missing; is this a file of llmsim-runtime?");
  if (header.value("schema", 0) != kSchema)
    throw Error(file + ":1: schema = " + header.value("schema", json()).dump() + ": 1 is expected");
  const json& device = header.at("device");
  const json& library = header.at("library");
  return {.id = header.at("accelerator").get<std::string>(),
          .name = device.at("name").get<std::string>(),
          .kind = device.at("kind").get<std::string>(),
          .libtorch = library.at("libtorch").get<std::string>(),
          .blas = library.value("blas", ""),
          .date = header.value("started", "").substr(0, 10),
          .threads = device.at("threads").get<int>(),
          .memory = sim::Bytes(device.at("memory_bytes").get<double>()),
          .last_level_cache = sim::Bytes(device.at("last_level_cache_bytes").get<double>())};
}

MeasuredKernel kernel_of(const json& record) {
  MeasuredKernel kernel;
  const std::string name = record.at("kind").get<std::string>();
  const std::optional<sim::OperatorKind> kind = kind_named(name);
  // A copy over the host link has the name of an operator but belongs to the device.
  if (kind && *kind != sim::OperatorKind::HostCopy)
    kernel.op.kind = *kind;
  else
    kernel.library = name;
  kernel.label = record.value("label", "");
  kernel.backward = record.value("pass", "forward") == "backward";
  kernel.streaming = streaming_kernel_named(record.value("kernel", ""));
  kernel.op.dtype = dtype_named(record.value("dtype", "fp32"));
  kernel.op.batch = record.value("batch", std::int64_t{1});
  kernel.op.m = record.value("m", std::int64_t{0});
  kernel.op.n = record.value("n", std::int64_t{0});
  kernel.op.k = record.value("k", std::int64_t{0});
  kernel.op.causal = record.value("causal", false);
  kernel.op.weight_gradient = record.value("weight_gradient", false);
  kernel.op.flops = sim::Flops(record.value("flops", 0.0));
  kernel.op.repeats = record.value("repeats", 1.0);
  kernel.op.moved = sim::Bytes(record.value("moved_bytes", 0.0));
  kernel.op.kernels = record.value("kernels", 1);
  kernel.median = sim::Seconds(record.at("median_s").get<double>());
  kernel.spread = record.value("spread", 0.0);
  return kernel;
}

std::optional<sim::CollectiveKind> collective_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(sim::CollectiveKind::SendRecv); ++i) {
    if (name == name_of(static_cast<sim::CollectiveKind>(i))) return static_cast<sim::CollectiveKind>(i);
  }
  return std::nullopt;
}

void add_collective(RuntimeResults& results, const json& record) {
  const auto kind = collective_named(record.at("kind").get<std::string>());
  if (!kind) return;
  results.collectives.push_back({.kind = *kind,
                                 .dtype = dtype_named(record.value("dtype", "fp32")),
                                 .message = sim::Bytes(record.at("bytes").get<double>()),
                                 .ranks = record.at("ranks").get<int>(),
                                 .ranks_per_node = record.value("ranks_per_node", 1),
                                 .nodes = record.value("nodes", 1),
                                 .median = sim::Seconds(record.at("median_s").get<double>())});
}

void add_overlap(RuntimeResults& results, const json& record) {
  const auto kind = collective_named(record.at("kind").get<std::string>());
  if (!kind) return;
  results.overlaps.push_back({.kind = *kind,
                              .dtype = dtype_named(record.value("dtype", "fp32")),
                              .ranks = record.at("ranks").get<int>(),
                              .nodes = record.value("nodes", 1),
                              .collective_slowdown = record.at("collective_slowdown").get<double>(),
                              .product_slowdown = record.at("gemm_slowdown").get<double>()});
}

MeasuredSharing sharing_of(const json& record) {
  return {.kind = record.at("kind").get<std::string>(),
          .ranks = record.at("ranks").get<int>(),
          .slowdown = record.at("slowdown").get<double>(),
          .spread = record.value("spread", 0.0)};
}

RunRecord run_of(const json& record, const std::string& where) {
  RunFile file = parse_runs(record.at("run").dump(), where);
  if (!file.rejected.empty()) throw Error(where + ": " + file.rejected.front().reason);
  return std::move(file.runs.at(0));
}

sim::PassFlopCounts flops_of(const json& record) {
  return {.products = record.at("product_flops").get<std::int64_t>(),
          .attention = record.at("attention_flops").get<std::int64_t>()};
}

sim::HeldBytes held_of(const json& record) {
  return {.persistent = record.at("persistent").get<std::int64_t>(),
          .after_forward = record.at("after_forward").get<std::int64_t>(),
          .peak = record.at("peak").get<std::int64_t>(),
          .host = record.at("host").get<std::int64_t>(),
          .host_peak = record.at("host_peak").get<std::int64_t>()};
}

CountedStep counted_of(const json& record, const std::string& where) {
  const json& counts = record.at("counts");
  CountedStep step{.name = record.at("key").get<std::string>(),
                   .run = run_of(record, where),
                   .stage = record.at("stage").get<int>(),
                   .shard = record.at("shard").get<int>()};
  step.counts.parameters = counts.at("parameters").get<std::int64_t>();
  step.counts.forward = flops_of(counts.at("forward"));
  step.counts.backward = flops_of(counts.at("backward"));
  step.counts.held = held_of(counts.at("bytes"));
  for (const json& one : counts.at("sent")) {
    step.counts.sent[{one.at("group").get<std::string>(), one.at("collective").get<std::string>()}] = {
        .calls = one.at("calls").get<std::int64_t>(), .bytes = one.at("bytes").get<std::int64_t>()};
  }
  return step;
}

MeasuredStep step_of(const json& record, const std::string& where) {
  return {.run = run_of(record, where),
          .forward = sim::Seconds(record.at("forward_s").get<double>()),
          .backward = sim::Seconds(record.at("backward_s").get<double>()),
          .optimizer = sim::Seconds(record.at("optimizer_s").get<double>()),
          .spread = record.value("spread", 0.0)};
}

void add(RuntimeResults& results, const json& record, const std::string& where) {
  const std::string type = record.value("type", "");
  if (record.value("outcome", "ok") == "oom") {
    ++results.out_of_memory;
  } else if (type == "kernel" && record.contains("median_s")) {
    results.kernels.push_back(kernel_of(record));
  } else if (type == "collective") {
    add_collective(results, record);
  } else if (type == "overlap") {
    add_overlap(results, record);
  } else if (type == "sharing") {
    results.sharing.push_back(sharing_of(record));
  } else if (type == "step") {
    results.steps.push_back(step_of(record, where));
  } else if (type == "counted") {
    results.counted.push_back(counted_of(record, where));
  }
}

}  // namespace

RuntimeResults parse_runtime_results(const std::string& text, const std::string& file) {
  RuntimeResults results{.file = file};
  std::istringstream stream(text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::string where = file + ":" + std::to_string(number);
    if (stream.eof()) {  // a whole line ends
      results.truncated = true;
      break;
    }
    try {
      const json record = json::parse(line);
      if (number == 1)
        results.machine = machine_of(record, file);
      else
        add(results, record, where);
    } catch (const json::exception& error) {
      throw Error(where + ": no record of llmsim-runtime: " + error.what());
    }
  }
  if (results.machine.id.empty()) throw Error(file + ": is empty; a result file of llmsim-runtime is expected");
  return results;
}

namespace {

// Kernels of one rank say nothing of ranks with other shares of the cores.
void require_same_device(const MeasuredMachine& first, const RuntimeResults& other) {
  const MeasuredMachine& machine = other.machine;
  if (machine.id != first.id)
    throw Error(other.file + ": is of the device " + machine.id + ", the files before it of " + first.id);
  if (machine.kind == "cpu" && machine.threads != first.threads) {
    throw Error(other.file + ": threads = " + std::to_string(machine.threads) + ", " + std::to_string(first.threads) +
                " in the files before it: measure all with the same --threads");
  }
}

}  // namespace

RuntimeResults read_runtime_results(const std::vector<std::string>& paths) {
  RuntimeResults all;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw Error(path + ": cannot be read");
    RuntimeResults one = parse_runtime_results(text.str(), path);
    if (all.machine.id.empty()) {
      all = std::move(one);
      continue;
    }
    require_same_device(all.machine, one);
    std::move(one.kernels.begin(), one.kernels.end(), std::back_inserter(all.kernels));
    std::move(one.collectives.begin(), one.collectives.end(), std::back_inserter(all.collectives));
    std::move(one.overlaps.begin(), one.overlaps.end(), std::back_inserter(all.overlaps));
    std::move(one.sharing.begin(), one.sharing.end(), std::back_inserter(all.sharing));
    std::move(one.steps.begin(), one.steps.end(), std::back_inserter(all.steps));
    std::move(one.counted.begin(), one.counted.end(), std::back_inserter(all.counted));
    all.out_of_memory += one.out_of_memory;
    all.truncated = all.truncated || one.truncated;
  }
  return all;
}

}  // namespace llmsim::hwdb
