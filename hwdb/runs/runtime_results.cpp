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
  if (header.value("schema", json()) != kResultsSchema)
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
      .driver = library.value("driver", ""),
      .date = header.value("started", "").substr(0, 10),
      .threads = ranks_of(sizes, "threads"),
      .compute_units = static_cast<int>(sizes.integer("compute_units", 0, 1 << 20).value_or(0)),
      .memory = sim::Bytes(positive_of(sizes, "memory_bytes")),
      .last_level_cache = sim::Bytes(sizes.number("last_level_cache_bytes", 0.0).value_or(0.0))};
}

// FLOPs forward of attention that a library's record counts backward: five GEMMs for two.
constexpr double kBackwardFlops = 2.5;

// A library's GEMM and attention as the operators that they are.  Bytes are those of the operands;
// attention's backward pass counts four GEMMs, as the simulator does.
void complete_library_kernel(const json& record, ObjectReader& reader, MeasuredKernel& kernel) {
  sim::Operator& op = kernel.op;
  const auto size = [](std::int64_t value) { return static_cast<double>(value); };
  const double batch = size(op.batch), m = size(op.m), n = size(op.n), k = size(op.k);
  if (kernel.library != "library_attention") {
    op.weight_gradient = record.value("form", "") == "wgrad";
    kernel.zeros = record.value("data", "") == "zeros";
    const sim::DType output = is_low_precision(op.dtype) ? sim::DType::Bf16 : op.dtype;
    op.moved = (m * k + k * n) * sim::size_of(op.dtype) + m * n * sim::size_of(output);
    return;
  }
  kernel.attention = record.value("attention", "");
  const double shared = size(size_of(reader, "kv_heads")) / size(size_of(reader, "heads"));
  const double passes = kernel.backward ? 2.0 : 1.0;
  op.moved = passes * (2.0 + 2.0 * shared) * batch * m * k * sim::size_of(op.dtype);
  if (kernel.backward) op.flops *= 2.0 / kBackwardFlops;
}

bool of_library(const MeasuredKernel& kernel) {
  return kernel.library == "library_gemm" || kernel.library == "sustained_gemm" ||
         kernel.library == "library_attention";
}

// GEMMs and attention have a shape and FLOPs; what only moves memory has bytes.
void read_work(ObjectReader& record, MeasuredKernel& kernel) {
  const bool shaped = of_library(kernel) ||
                      (kernel.library.empty() && (kernel.op.kind == sim::OperatorKind::Gemm ||
                                                  kernel.op.kind == sim::OperatorKind::Attention));
  if (shaped) {
    kernel.op.batch = record.any("batch") ? size_of(record, "batch") : 1;
    kernel.op.m = size_of(record, "m");
    kernel.op.n = size_of(record, "n");
    kernel.op.k = size_of(record, "k");
    kernel.op.flops = sim::Flops(positive_of(record, "flops"));
  } else {
    kernel.op.flops = sim::Flops(record.number("flops", 0.0).value_or(0.0));
  }
  const bool moves =
      (shaped && !of_library(kernel)) || kernel.memory_bound || kernel.library == "stream_copy";
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
  kernel.attention = record.value("attention", "");
  kernel.memory_bound =
      enumerator_named(record.value("kernel", ""),
                       static_cast<sim::MemoryBoundKernel>(sim::kNumMemoryBoundKernels - 1));
  kernel.op.dtype = dtype_of(record);
  kernel.op.causal = record.value("causal", false);
  kernel.op.weight_gradient = record.value("weight_gradient", false);
  kernel.op.transposed = record.value("transposed", false);
  kernel.op.repeats = record.value("repeats", 1.0);
  if (of_library(kernel))
    kernel.op.kind = kernel.library == "library_attention" ? sim::OperatorKind::Attention
                                                           : sim::OperatorKind::Gemm;
  ObjectReader reader(record, where, name);
  read_work(reader, kernel);
  if (of_library(kernel)) complete_library_kernel(record, reader, kernel);
  kernel.median = sim::Seconds(positive_of(reader, "median_s"));
  kernel.spread = reader.number("spread", 0.0).value_or(0.0);
  kernel.clock_hz = reader.number("clock_hz", 0.0);
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
  if (const auto mean = reader.number("mean_s", 0.0); mean && *mean > 0.0)
    results.collectives.back().mean = sim::Seconds(*mean);
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

// get() of a number beyond the type is undefined.
template <class Integer = std::int64_t>
Integer integer_of(const json& record, const char* key) {
  const json& value = record.at(key);
  const bool known = value.is_number_integer() && std::in_range<Integer>(value.get<std::int64_t>());
  if (!known) throw Error(std::string(key) + " = " + value.dump() + ": an integer is expected");
  return value.get<Integer>();
}

sim::PassFlopCounts flops_of(const json& record) {
  return {.gemms = integer_of(record, "gemm_flops"),
          .attention = integer_of(record, "attention_flops")};
}

sim::HeldBytes held_of(const json& record) {
  return {.persistent = integer_of(record, "persistent"),
          .after_forward = integer_of(record, "after_forward"),
          .peak = integer_of(record, "peak"),
          .host = integer_of(record, "host"),
          .host_peak = integer_of(record, "host_peak")};
}

CountedStep counted_of(const json& record, const std::string& where) {
  const json& counts = record.at("counts");
  CountedStep step{.name = record.at("key").get<std::string>(),
                   .run = step_record(record, where),
                   .stage = integer_of<int>(record, "stage"),
                   .shard = integer_of<int>(record, "shard")};
  step.counts.parameters = integer_of(counts, "parameters");
  step.counts.forward = flops_of(counts.at("forward"));
  step.counts.backward = flops_of(counts.at("backward"));
  step.counts.held = held_of(counts.at("bytes"));
  for (const json& one : counts.at("sent")) {
    step.counts
        .sent[{one.at("group").get<std::string>(), one.at("collective").get<std::string>()}] = {
        .calls = integer_of(one, "calls"), .bytes = integer_of(one, "bytes")};
  }
  return step;
}

std::optional<sim::Bytes> requested_of(const json& record) {
  if (!record.contains("ranks") || record.at("ranks").empty()) return std::nullopt;
  const json& first = record.at("ranks").front();
  if (!first.contains("requested_bytes")) return std::nullopt;
  return sim::Bytes(first.at("requested_bytes").get<double>());
}

MeasuredStep step_of(const json& record, const std::string& where) {
  ObjectReader reader(record, where, "step");
  // 0 is what earlier files have of captured passes, which nothing divides.
  const auto part = [&](const char* key) -> std::optional<sim::Seconds> {
    const std::optional<double> value = reader.number(key, 0.0);
    return value && *value > 0.0 ? std::optional(sim::Seconds(*value)) : std::nullopt;
  };
  return {.run = step_record(record, where),
          .forward = part("forward_s"),
          .backward = part("backward_s"),
          .optimizer = part("optimizer_s"),
          .requested = requested_of(record),
          .clock_hz = reader.number("clock_hz", 0.0),
          .spread = reader.number("spread", 0.0).value_or(0.0)};
}

void add(RuntimeResults& results, const json& record, const std::string& where) {
  const std::string type = record.value("type", "");
  const std::string outcome = record.value("outcome", "ok");
  if (outcome == "oom") {
    ++results.out_of_memory;
  } else if (outcome == "refused") {
    ++results.refused;
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

namespace {

void add_line(RuntimeResults& results, const std::string& line, int number) {
  const json record = parse_json(line, results.file, number);
  if (number == 1)
    results.machine = machine_of(record, results.file);
  else
    add(results, record, results.file + ":" + std::to_string(number));
}

// Without its first line a file is none.
void reject(RuntimeResults& results, int number, const std::string& why) {
  if (number == 1) throw Error(why);
  results.rejected.push_back(why);
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
      add_line(results, line, number);
    } catch (const json::exception& error) {
      reject(results, number, where + ": no record of llmsim-runtime: " + reason_of(error));
    } catch (const Error& error) {
      reject(results, number, error.what());
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
    std::move(one.rejected.begin(), one.rejected.end(), std::back_inserter(all.rejected));
    all.out_of_memory += one.out_of_memory;
    all.refused += one.refused;
    all.truncated = all.truncated || one.truncated;
  }
  return all;
}

}  // namespace llmsim::hwdb
