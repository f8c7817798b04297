#include "hwdb/benchmarks/benchmark_file.h"

#include "hwdb/benchmarks/benchmark_lines.h"
#include "hwdb/benchmarks/clock_log.h"
#include "hwdb/benchmarks/collective_table.h"
#include "hwdb/benchmarks/copy_table.h"
#include "hwdb/benchmarks/gemm_table.h"
#include "hwdb/text/input_file.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

bool is_runtime_results(const BenchmarkText& text) {
  return !text.lines().empty() && text.lines().front().starts_with('{') &&
         text.lines().front().find("\"header\"") != std::string_view::npos;
}

void read_results(const BenchmarkText& text, const BenchmarkDefaults&, BenchmarkFile& result) {
  RuntimeResults results = parse_runtime_results(text.text(), text.file());
  result.program = "llmsim-runtime, libtorch " + results.machine.libtorch;
  result.device_name = results.machine.name;
  result.kernels = std::move(results.kernels);
  result.collectives = std::move(results.collectives);
  result.left_out = std::move(results.rejected);
}

struct BenchmarkFormat {
  const char* name;  // a reader of several programs sets its own
  bool (*is_one)(const BenchmarkText&);
  void (*read)(const BenchmarkText&, const BenchmarkDefaults&, BenchmarkFile&);
};

// JSON first: its texts may hold words of the others.
constexpr BenchmarkFormat kFormats[] = {
    {"llmsim-runtime", is_runtime_results, read_results},
    {"nccl-tests", is_collective_json, read_collective_json},
    {"nvbandwidth", is_nvbandwidth, read_nvbandwidth},
    {"nccl-tests", is_collective_table, read_collective_table},
    {"hipblaslt-bench", is_gemm_table, read_gemm_table},
    {"BabelStream", is_babelstream, read_babelstream},
    {"dcgmi dmon", is_dcgmi_log, read_dcgmi_log},
    {"nvidia-smi", is_clock_csv, read_clock_csv},
    {"mamf-finder", is_mamf_log, read_mamf_log},
};

}  // namespace

std::string benchmark_programs() {
  return "nccl-tests (rccl-tests), hipblaslt-bench, rocblas-bench, mamf-finder, BabelStream, "
         "nvbandwidth, nvidia-smi --format=csv, dcgmi dmon, amd-smi or rocm-smi --csv, "
         "llmsim-runtime";
}

BenchmarkFile parse_benchmark_file(const std::string& text, const std::string& file,
                                   const BenchmarkDefaults& defaults) {
  const BenchmarkText lines(text, file);
  for (const BenchmarkFormat& format : kFormats) {
    if (!format.is_one(lines)) continue;
    BenchmarkFile result{.file = file, .format = format.name};
    format.read(lines, defaults, result);
    if (result.rows() == 0 && result.left_out.empty())
      throw Error(file + ": output of " + result.format + " without a result");
    return result;
  }
  throw Error(file + ": output of none of these: " + benchmark_programs());
}

std::vector<BenchmarkFile> read_benchmark_files(const std::vector<std::string>& paths,
                                                const BenchmarkDefaults& defaults) {
  std::vector<BenchmarkFile> files;
  for (const std::string& path : paths)
    files.push_back(parse_benchmark_file(content_of_file(path), path, defaults));
  return files;
}

}  // namespace llmsim::hwdb
