// Result files of llmsim-runtime: JSON lines, a header and one record
// for each measurement (runtime/measure/results.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/runs/run_record.h"
#include "sim/base/quantity.h"
#include "sim/hardware/device.h"
#include "sim/operators/operator.h"
#include "sim/schedule/stage_work.h"

namespace llmsim::hwdb {

// The device and library that a file was measured on.
struct MeasuredMachine {
  std::string id;    // what records call the device
  std::string name;  // "AMD EPYC 9654"
  std::string kind;  // "cpu", "cuda"
  std::string libtorch{}, blas{}, driver{}, date{};
  int threads = 1;
  int compute_units = 0;  // SMs, CUs of an accelerator; 0: unknown
  sim::Bytes memory{};
  sim::Bytes last_level_cache{};  // 0: unknown
};

// One operator, or one call of the library (`library`: "stream_copy", "launch",
// ...; empty for operators).
struct MeasuredKernel {
  std::string library;
  std::string label;
  sim::Operator op;  // kind, dtype, shape, FLOPs, bytes; op.label is empty
  bool backward = false;
  std::string attention{};                             // "blockwise", "flash", "cudnn", ...
  bool zeros = false;                                  // a GEMM of zeros, which needs less power
  std::optional<double> clock_hz{};                    // of the units while it ran
  std::optional<sim::MemoryBoundKernel> memory_bound;  // which kernel, of memory-bound operators
  sim::Seconds median{};
  double spread = 0.0;
};

// One collective of a group of ranks.
struct MeasuredCollective {
  sim::CollectiveKind kind = sim::CollectiveKind::AllReduce;
  sim::DType dtype = sim::DType::Fp32;
  sim::Bytes message;  // nccl-tests' size
  int ranks = 1;
  int ranks_per_node = 1;
  int nodes = 1;  // that the group spans
  sim::Seconds median{};
  std::optional<sim::Seconds> mean{};  // of all repeats
};

// A collective overlapped with GEMMs that take as long, on all ranks of a group.
struct MeasuredOverlap {
  sim::CollectiveKind kind = sim::CollectiveKind::AllReduce;
  sim::DType dtype = sim::DType::Fp32;
  int ranks = 1;
  int nodes = 1;
  double collective_slowdown = 1.0;  // during GEMMs that outlast it, relative to alone
  double gemm_slowdown = 1.0;        // during collectives that outlast them
};

// A call that all ranks of a node make at once, each on its own data.
struct MeasuredSharing {
  std::string kind;  // "gemm", "copy", "cached_copy"
  int ranks = 1;     // of the node
  double slowdown = 1.0;
  double spread = 0.0;
};

// One training step: its record, and how the time divides, where something tells.
struct MeasuredStep {
  RunRecord run;
  std::optional<sim::Seconds> forward, backward, optimizer;
  std::optional<sim::Bytes> requested;  // peak of what tensors asked for, on the first rank
  std::optional<double> clock_hz;       // of the units while it ran
  double spread = 0.0;
};

// What one rank of a training step was counted to have, execute, send and hold.
struct CountedStep {
  std::string name{};
  RunRecord run{};
  int stage = 0;
  int shard = 0;  // place among the ranks that share units of parameters
  sim::RankCounts counts{};
};

struct RuntimeResults {
  std::string file{};
  MeasuredMachine machine{};
  std::vector<MeasuredKernel> kernels{};
  std::vector<MeasuredCollective> collectives{};
  std::vector<MeasuredOverlap> overlaps{};
  std::vector<MeasuredSharing> sharing{};
  std::vector<MeasuredStep> steps{};
  std::vector<CountedStep> counted{};
  int out_of_memory = 0;                // measurements that did not fit
  int refused = 0;                      // that the device or its library refused
  bool truncated = false;               // the last line was cut off, and left out
  std::vector<std::string> rejected{};  // records that are of no use, each with file, line and why
};

// Throws Error naming file and line for text that is no result file; records of unknown types are
// skipped, and one that is wrong costs no other.
RuntimeResults parse_runtime_results(const std::string& text, const std::string& file);

// The records of one device in several files.  Throws Error for files of different devices, and of
// a CPU for ranks of different numbers of threads.
RuntimeResults read_runtime_results(const std::vector<std::string>& paths);

}  // namespace llmsim::hwdb
