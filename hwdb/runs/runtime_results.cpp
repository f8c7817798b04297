#include "hwdb/runs/runtime_results.h"

#include <iterator>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "hwdb/text/input_file.h"
#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

constexpr int kResultsSchema = 2;
// Rows, columns or heads of an operator.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 48;
constexpr std::int64_t kMostRanks = 1 << 22;

// The enumerator of a name, of those up to `last`.
template <class Enum>
std::optional<Enum> enumerator_named(const std::string& name, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

sim::DType dtype_of(const json& record) {
  constexpr auto kLast = static_cast<sim::DType>(sim::kNumDTypes - 1);
  return enumerator_named(record.value("dtype", "fp32"), kLast).value_or(sim::DType::Fp32);
}

// Fits divide by sizes, bytes and times and take their logarithms: what is missing or 0 is refused
// where it is read.
std::int64_t size_of(ObjectReader& record, const char* key, std::int64_t most = kLargestSize) {
  const std::optional<std::int64_t> value = record.integer(key, 1, most);
  if (!value) record.refuse(key, "is missing; an integer of at least 1 is expected");
  return *value;
}

double positive_of(ObjectReader& record, const char* key) {
  const std::optional<double> value = record.number(key, 0.0);
  if (!value || *value == 0.0) record.refuse(key, "a number above 0 is expected");
  return *value;
}

int ranks_of(ObjectReader& record, const char* key) {
  return static_cast<int>(size_of(record, key, kMostRanks));
}

int ranks_or_one(ObjectReader& record, const char* key) {
  return record.any(key) ? ranks_of(record, key) : 1;
}

MeasuredMachine machine_of(const json& header, const std::string& file) {
  if (header.value("type", "") != "header")
    throw Error(file + ":1: the header is missing; is this a file of llmsim-runtime?");
  if (header.value("schema", 0) != kResultsSchema)
    throw Error(file + ":1: schema = " + header.value("schema", json()).dump() +
                ": 2 is expected; measure again");
  const json& device = header.at("device");
  ObjectReader sizes(device, file + ":1", "device");
  const json& library = header.at("library");
  return {
      .id = header.at("accelerator").get<std::string>(),
      .name = device.at("name").get<std::string>(),
      .kind = device.at("kind").get<std::string>(),
      .libtorch = library.at("libtorch").get<std::string>(),
      .blas = library.value("blas", ""),
      .date = header.value("started", "").substr(0, 10),
      .threads = ranks_of(sizes, "threads"),
      .memory = sim::Bytes(positive_of(sizes, "memory_bytes")),
      .last_level_cache = sim::Bytes(sizes.number("last_level_cache_bytes", 0.0).value_or(0.0))};
}

// GEMMs and attention have a shape and FLOPs; what only moves memory has bytes.
void read_work(ObjectReader& record, MeasuredKernel& kernel) {
  const bool shaped = kernel.library.empty() && (kernel.op.kind == sim::OperatorKind::Gemm ||
                                                 kernel.op.kind == sim::OperatorKind::Attention);
  if (shaped) {
    kernel.op.batch = record.any("batch") ? size_of(record, "batch") : 1;
    kernel.op.m = size_of(record, "m");
    kernel.op.n = size_of(record, "n");
    kernel.op.k = size_of(record, "k");
    kernel.op.flops = sim::Flops(positive_of(record, "flops"));
  } else {
    kernel.op.flops = sim::Flops(record.number("flops", 0.0).value_or(0.0));
  }
  const bool moves = shaped || kernel.memory_bound || kernel.library == "stream_copy";
  kernel.op.moved = sim::Bytes(moves ? positive_of(record, "moved_bytes")
                                     : record.number("moved_bytes", 0.0).value_or(0.0));
  kernel.op.kernels = record.count("kernels").value_or(1);
}

MeasuredKernel kernel_of(const json& record, const std::string& where) {
  MeasuredKernel kernel;
  const std::string name = record.at("kind").get<std::string>();
  const auto kind = enumerator_named(name, sim::OperatorKind::HostCopy);
  // A copy over the host link has the name of an operator but belongs to the device.
  if (kind && *kind != sim::OperatorKind::HostCopy)
    kernel.op.kind = *kind;
  else
    kernel.library = name;
  kernel.label = record.value("label", "");
  kernel.backward = record.value("pass", "forward") == "backward";
  kernel.memory_bound =
      enumerator_named(record.value("kernel", ""),
                       static_cast<sim::MemoryBoundKernel>(sim::kNumMemoryBoundKernels - 1));
  kernel.op.dtype = dtype_of(record);
  kernel.op.causal = record.value("causal", false);
  kernel.op.weight_gradient = record.value("weight_gradient", false);
  kernel.op.transposed = record.value("transposed", false);
  kernel.op.repeats = record.value("repeats", 1.0);
  ObjectReader reader(record, where, name);
  read_work(reader, kernel);
  kernel.median = sim::Seconds(positive_of(reader, "median_s"));
  kernel.spread = reader.number("spread", 0.0).value_or(0.0);
  return kernel;
}

std::optional<sim::CollectiveKind> collective_of(const json& record) {
  return enumerator_named(record.at("kind").get<std::string>(), sim::CollectiveKind::SendRecv);
}

void add_collective(RuntimeResults& results, const json& record, const std::string& where) {
  const auto kind = collective_of(record);
  if (!kind) return;
  ObjectReader reader(record, where, name_of(*kind));
  results.collectives.push_back({.kind = *kind,
                                 .dtype = dtype_of(record),
                                 .message = sim::Bytes(positive_of(reader, "bytes")),
                                 .ranks = ranks_of(reader, "ranks"),
                                 .ranks_per_node = ranks_or_one(reader, "ranks_per_node"),
                                 .nodes = ranks_or_one(reader, "nodes"),
                                 .median = sim::Seconds(positive_of(reader, "median_s"))});
}

void add_overlap(RuntimeResults& results, const json& record, const std::string& where) {
  const auto kind = collective_of(record);
  if (!kind) return;
  ObjectReader reader(record, where, name_of(*kind));
  results.overlaps.push_back({.kind = *kind,
                              .dtype = dtype_of(record),
                              .ranks = ranks_of(reader, "ranks"),
                              .nodes = ranks_or_one(reader, "nodes"),
                              .collective_slowdown = positive_of(reader, "collective_slowdown"),
                              .gemm_slowdown = positive_of(reader, "gemm_slowdown")});
}

MeasuredSharing sharing_of(const json& record, const std::string& where) {
  ObjectReader reader(record, where, "sharing");
  return {.kind = record.at("kind").get<std::string>(),
          .ranks = ranks_of(reader, "ranks"),
          .slowdown = positive_of(reader, "slowdown"),
          .spread = reader.number("spread", 0.0).value_or(0.0)};
}

RunRecord step_record(const json& record, const std::string& where) {
  RunFile file = parse_runs(record.at("run").dump(), where);
  if (!file.rejected.empty()) throw Error(where + ": " + file.rejected.front().reason);
  return std::move(file.runs.at(0));
}

sim::PassFlopCounts flops_of(const json& record) {
  return {.gemms = record.at("gemm_flops").get<std::int64_t>(),
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
                   .run = step_record(record, where),
                   .stage = record.at("stage").get<int>(),
                   .shard = record.at("shard").get<int>()};
  step.counts.parameters = counts.at("parameters").get<std::int64_t>();
  step.counts.forward = flops_of(counts.at("forward"));
  step.counts.backward = flops_of(counts.at("backward"));
  step.counts.held = held_of(counts.at("bytes"));
  for (const json& one : counts.at("sent")) {
    step.counts
        .sent[{one.at("group").get<std::string>(), one.at("collective").get<std::string>()}] = {
        .calls = one.at("calls").get<std::int64_t>(), .bytes = one.at("bytes").get<std::int64_t>()};
  }
  return step;
}

MeasuredStep step_of(const json& record, const std::string& where) {
  ObjectReader reader(record, where, "step");
  return {.run = step_record(record, where),
          .forward = sim::Seconds(positive_of(reader, "forward_s")),
          .backward = sim::Seconds(positive_of(reader, "backward_s")),
          .optimizer = sim::Seconds(reader.number("optimizer_s", 0.0).value_or(0.0)),
          .spread = reader.number("spread", 0.0).value_or(0.0)};
}

void add(RuntimeResults& results, const json& record, const std::string& where) {
  const std::string type = record.value("type", "");
  if (record.value("outcome", "ok") == "oom") {
    ++results.out_of_memory;
  } else if (type == "kernel" && record.contains("median_s")) {
    results.kernels.push_back(kernel_of(record, where));
  } else if (type == "collective") {
    add_collective(results, record, where);
  } else if (type == "overlap") {
    add_overlap(results, record, where);
  } else if (type == "sharing") {
    results.sharing.push_back(sharing_of(record, where));
  } else if (type == "step") {
    results.steps.push_back(step_of(record, where));
  } else if (type == "counted") {
    results.counted.push_back(counted_of(record, where));
  }
}

// Kernels of one rank say nothing of ranks with other shares of the cores.
void require_same_device(const MeasuredMachine& first, const RuntimeResults& other) {
  const MeasuredMachine& machine = other.machine;
  if (machine.id != first.id)
    throw Error(other.file + ": is of the device " + machine.id + ", the files before it of " +
                first.id);
  if (machine.kind == "cpu" && machine.threads != first.threads) {
    throw Error(other.file + ": threads = " + std::to_string(machine.threads) + ", " +
                std::to_string(first.threads) +
                " in the files before it: measure all with the same --threads");
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
      const json record = parse_json(line, file, number);
      if (number == 1)
        results.machine = machine_of(record, file);
      else
        add(results, record, where);
    } catch (const json::exception& error) {
      throw Error(where + ": no record of llmsim-runtime: " + error.what());
    }
  }
  if (results.machine.id.empty())
    throw Error(file + ": is empty; a result file of llmsim-runtime is expected");
  return results;
}

RuntimeResults read_runtime_results(const std::vector<std::string>& paths) {
  RuntimeResults all;
  for (const std::string& path : paths) {
    RuntimeResults one = parse_runtime_results(content_of_file(path), path);
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
