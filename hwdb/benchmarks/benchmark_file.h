// Output of public benchmark programs, as rows that fits take.  Which program wrote a file is seen
// from its form, so that files of any of them may stand in one list.
//
//   nccl-tests        the table of all_reduce_perf and its sisters, of rccl-tests too, or its JSON
//                     (-J): times of collectives over message sizes
//   hipblaslt-bench   a line of names and one of values for each GEMM; rocblas-bench the same with
//                     names of its own
//   mamf-finder       TFLOPS of GEMMs, all shapes or the best one
//   BabelStream       rates of copies in device memory, as a table or CSV
//   nvbandwidth       rates of copies over the host link and in device memory, text or JSON
//   nvidia-smi        --query-gpu=... --format=csv, with or without units: clock and power
//   dcgmi dmon        the same with fields 100 (SM clock) and 155 (power)
//   amd-smi           metric or monitor --csv; rocm-smi --csv
//   llmsim-runtime    its own results (hwdb/runs/runtime_results.h)
//
// Sources: how each of them prints (NVIDIA/nccl-tests src/util.cu @a0b82b2; ROCm/hipBLASLt @7d9fb68
// and ROCm/rocBLAS @b520bc8 clients/include/argument_model.hpp; stas00/ml-engineering
// compute/accelerator/benchmarks/mamf-finder.py @744d01e; UoB-HPC/BabelStream src/main.cpp
// @57637d5; NVIDIA/nvbandwidth inline_common.h and json_output.cpp @66746a3; NVIDIA/DCGM
// dcgmi/DeviceMonitor.cpp @72fa3fe; ROCm/amdsmi amdsmi_cli/amdsmi_logger.py @0ceca28).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/runs/runtime_results.h"
#include "sim/base/dtype.h"
#include "sim/operators/operator.h"

namespace llmsim::hwdb {

// One reading of a device's clock while something ran.
struct ClockReading {
  std::string device;               // index, name of the card or whatever names it in the file
  double clock_hz = 0.0;            // of the compute units
  std::optional<double> most_hz{};  // that they can have
  std::optional<double> watts{}, limit_watts{};
  std::optional<double> busy{};  // share of the time in which a kernel ran
};

struct BenchmarkFile {
  std::string file{};
  std::string format{};       // the name above
  std::string program{};      // with its version and library: "nccl-tests 2.19.6, NCCL 2.28.3"
  std::string device_name{};  // "NVIDIA H100 80GB HBM3"; empty: the file does not say
  // GEMMs ("library_gemm"), copies in device memory ("stream_copy"), over the host link
  // ("host_copy"); in results of llmsim-runtime its others too.
  std::vector<MeasuredKernel> kernels{};
  std::vector<MeasuredCollective> collectives{};
  std::vector<ClockReading> clocks{};
  std::vector<std::string> left_out{};  // what is of no use here, and why

  std::size_t rows() const { return kernels.size() + collectives.size() + clocks.size(); }
};

// What some files leave open.
struct BenchmarkDefaults {
  std::optional<sim::CollectiveKind> collective{};
  std::optional<sim::DType> dtype{};
};

// "nccl-tests, hipblaslt-bench, ..."
std::string benchmark_programs();

// Throws Error "FILE:LINE: ..." for a text of none of these programs, a value that cannot be meant,
// and a table that does not say which collective, or which number format, it is of, where
// `defaults` does not either.
BenchmarkFile parse_benchmark_file(const std::string& text, const std::string& file,
                                   const BenchmarkDefaults& defaults = {});

// The files in their order.
std::vector<BenchmarkFile> read_benchmark_files(const std::vector<std::string>& paths,
                                                const BenchmarkDefaults& defaults = {});

}  // namespace llmsim::hwdb
