#include "hwdb/runtime_results.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

const std::string kHeader =
    R"({"type": "header", "schema": 1, "started": "2026-11-21T20:00:00Z", "accelerator": "local_cpu",
 "device": {"name": "A CPU", "kind": "cpu", "threads": 2, "memory_bytes": 1e10, "last_level_cache_bytes": 3e7},
 "library": {"libtorch": "1.13.0", "blas": "OpenBLAS"}})";

// Lines of a file, each with its end.
std::string lines(const std::vector<std::string>& records) {
  std::string text;
  for (std::string record : records) {
    std::erase(record, '\n');
    text += record + "\n";
  }
  return text;
}

std::string error_of(const std::string& text) {
  try {
    parse_runtime_results(text, "file");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RuntimeResults, ReadsTheMachineAndItsOperators) {
  const RuntimeResults results = parse_runtime_results(
      lines(
          {kHeader,
           R"({"type": "kernel", "key": "a", "kind": "gemm", "label": "qkv", "pass": "backward", "dtype": "bf16", "batch": 2, "m": 3,
 "n": 4, "k": 5, "weight_gradient": true, "flops": 240, "moved_bytes": 94, "kernels": 1, "outcome": "ok", "median_s": 0.5})",
           R"({"type": "kernel", "key": "b", "kind": "launch", "label": "add_", "kernels": 100, "moved_bytes": 0, "median_s": 1e-4})"}),
      "file");
  EXPECT_EQ(results.machine.id, "local_cpu");
  EXPECT_EQ(results.machine.threads, 2);
  EXPECT_EQ(results.machine.date, "2026-11-21");
  ASSERT_EQ(results.kernels.size(), 2U);
  const MeasuredKernel& gemm = results.kernels[0];
  EXPECT_EQ(gemm.op.kind, sim::OperatorKind::Gemm);
  EXPECT_EQ(gemm.op.dtype, sim::DType::Bf16);
  EXPECT_EQ(gemm.op.k, 5);
  EXPECT_TRUE(gemm.backward && gemm.op.weight_gradient && gemm.library.empty());
  EXPECT_EQ(gemm.median, sim::Seconds(0.5));
  EXPECT_EQ(results.kernels[1].library, "launch");
}

TEST(RuntimeResults, CountsWhatDidNotFit) {
  const RuntimeResults results =
      parse_runtime_results(lines({kHeader, R"({"type": "kernel", "key": "a", "kind": "gemm", "outcome": "oom"})"}), "file");
  EXPECT_EQ(results.out_of_memory, 1);
  EXPECT_TRUE(results.kernels.empty());
}

TEST(RuntimeResults, LeavesOutALineThatWasCutOff) {
  const RuntimeResults results = parse_runtime_results(lines({kHeader}) + R"({"type": "ker)", "file");
  EXPECT_TRUE(results.truncated);
  EXPECT_TRUE(results.kernels.empty());
}

TEST(RuntimeResults, NamesTheLineThatIsWrong) {
  EXPECT_EQ(error_of(""), "file: is empty; a result file of llmsim-runtime is expected");
  EXPECT_EQ(error_of("{}\n"), "file:1: the header is missing; is this a file of llmsim-runtime?");
  EXPECT_TRUE(error_of(lines({kHeader, "nonsense"})).starts_with("file:2: no record of llmsim-runtime"));
}

}  // namespace
}  // namespace llmsim::hwdb
