#include "hwdb/runs/runtime_results.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

const std::string kHeader =
    R"({"type": "header", "schema": 2, "started": "2026-11-21T20:00:00Z", "accelerator": "local_cpu",
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

// Why a file, or the first of its records that is left out, is of no use.
std::string results_error(const std::string& text) {
  RuntimeResults results;
  const std::string error = error_of([&] { results = parse_runtime_results(text, "file"); });
  return error.empty() && !results.rejected.empty() ? results.rejected.front() : error;
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

const std::string kOverlap =
    R"({"type": "overlap", "key": "o", "kind": "all_gather", "dtype": "fp32", "ranks": 2, "stride": 1, "ranks_per_node": 2,
 "nodes": 1, "bytes": 1e6, "outcome": "ok", "collective_slowdown": 2.5, "gemm_slowdown": 1.5})";
const std::string kSharing =
    R"({"type": "sharing", "key": "s", "kind": "copy", "ranks": 2, "bytes": 1e8, "outcome": "ok", "alone_s": 0.01,
 "together_s": 0.013, "slowdown": 1.3, "spread": 0.02, "repeats_n": 5})";
const std::string kCollective =
    R"({"type": "collective", "key": "c", "kind": "all_reduce", "dtype": "fp32", "ranks": 2, "stride": 1, "ranks_per_node": 2,
 "nodes": 1, "groups": 1, "bytes": 1e6, "outcome": "ok", "median_s": 1e-3})";

TEST(RuntimeResults, ReadsWhatRanksTakeFromEachOther) {
  const RuntimeResults results =
      parse_runtime_results(lines({kHeader, kOverlap, kSharing, kCollective}), "file");
  ASSERT_EQ(results.overlaps.size(), 1U);
  EXPECT_EQ(results.overlaps[0].kind, sim::CollectiveKind::AllGather);
  EXPECT_EQ(results.overlaps[0].collective_slowdown, 2.5);
  EXPECT_EQ(results.overlaps[0].gemm_slowdown, 1.5);
  ASSERT_EQ(results.sharing.size(), 1U);
  EXPECT_EQ(results.sharing[0].kind, "copy");
  EXPECT_EQ(results.sharing[0].ranks, 2);
  EXPECT_EQ(results.sharing[0].slowdown, 1.3);
  EXPECT_EQ(results.sharing[0].spread, 0.02);
  ASSERT_EQ(results.collectives.size(), 1U);
  EXPECT_EQ(results.collectives[0].message, sim::Bytes(1e6));
}

// The value of `key` in a record replaced, or the key taken away.
std::string changed(const std::string& record, const std::string& key, const std::string& value) {
  const std::size_t at = record.find("\"" + key + "\": ");
  const std::size_t end = record.find_first_of(",}", at);
  return value.empty() ? record.substr(0, at) + "\"other\": 1" + record.substr(end)
                       : record.substr(0, at) + "\"" + key + "\": " + value + record.substr(end);
}

void expect_refused_without(const std::string& record, const std::string& kind,
                            const std::vector<std::string>& keys) {
  EXPECT_EQ(results_error(lines({kHeader, record})), "") << record;
  for (const std::string& key : keys) {
    for (const std::string value : {"", "null", "0", "-1", "\"x\"", "1e999"}) {
      if (value.empty() && key == "median_s") continue;  // a record without a time was not measured
      const std::string error = results_error(lines({kHeader, changed(record, key, value)}));
      const std::string start = value == "1e999" ? "file:2: " : "file:2: " + kind + "." + key;
      EXPECT_TRUE(error.starts_with(start)) << key << " " << value << ": " << error;
    }
  }
}

// Fits divide by what a record says of sizes, bytes and times.
TEST(RuntimeResults, RecordsWithoutSizesAreRefusedByName) {
  const std::string gemm =
      R"({"type": "kernel", "kind": "gemm", "m": 3, "n": 4, "k": 5, "flops": 120, "moved_bytes": 94, "median_s": 0.5})";
  const std::string attention =
      R"({"type": "kernel", "kind": "attention", "m": 3, "n": 4, "k": 5, "flops": 9, "moved_bytes": 94, "median_s": 0.5})";
  const std::string norm =
      R"({"type": "kernel", "kind": "norm", "kernel": "layer_norm", "moved_bytes": 94, "median_s": 0.5})";
  const std::string copy =
      R"({"type": "kernel", "kind": "stream_copy", "moved_bytes": 94, "median_s": 0.5})";
  expect_refused_without(gemm, "gemm", {"m", "n", "k", "flops", "moved_bytes", "median_s"});
  expect_refused_without(attention, "attention",
                         {"m", "n", "k", "flops", "moved_bytes", "median_s"});
  expect_refused_without(norm, "norm", {"moved_bytes", "median_s"});
  expect_refused_without(copy, "stream_copy", {"moved_bytes", "median_s"});
  expect_refused_without(kCollective, "all_reduce", {"ranks", "bytes", "median_s"});
  expect_refused_without(kOverlap, "all_gather", {"ranks", "collective_slowdown", "gemm_slowdown"});
  expect_refused_without(kSharing, "sharing", {"ranks", "slowdown"});
  EXPECT_EQ(results_error(lines({kHeader, changed(gemm, "n", "")})),
            "file:2: gemm.n: is missing; an integer of at least 1 is expected");
  EXPECT_TRUE(results_error(lines({changed(kHeader, "threads", "0")}))
                  .starts_with("file:1: device.threads = 0"));
  EXPECT_TRUE(results_error(lines({changed(kHeader, "memory_bytes", "0")}))
                  .starts_with("file:1: device.memory_bytes = 0"));
}

// Bytes of a good file replaced, cut out and doubled, 20 000 times: every text is read or refused
// with a line.
TEST(RuntimeResults, RefusesOrReadsAnyText) {
  const std::string good = lines({kHeader, kOverlap, kSharing, kCollective});
  std::mt19937 generator(7);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(generator);
  };
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (std::size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = below(text.size()),
                        length = below(std::min<std::size_t>(20, text.size() - at)) + 1;
      switch (below(3)) {
        case 0: text[at] = static_cast<char>(below(256)); break;
        case 1: text.erase(at, length); break;
        default: text.insert(at, text.substr(at, length));
      }
    }
    const std::string error = results_error(text);
    refused += error.empty() ? 0 : 1;
    EXPECT_TRUE(error.empty() || error.starts_with("file:")) << error;
  }
  EXPECT_GT(refused, 5'000);
}

TEST(RuntimeResults, ACpuHasNoComputeUnitsAndAnAcceleratorHas) {
  const std::string threads = "\"threads\": 2";
  for (const auto& [said, read] :
       {std::pair{"\"compute_units\": 0", 0}, {"\"compute_units\": 132", 132}}) {
    std::string header = kHeader;
    header.replace(header.find(threads), threads.size(), threads + ", " + said);
    EXPECT_EQ(parse_runtime_results(lines({header}), "file").machine.compute_units, read);
  }
  EXPECT_EQ(parse_runtime_results(lines({kHeader}), "file").machine.compute_units, 0);
}

TEST(RuntimeResults, OneWrongRecordCostsNoOther) {
  for (const std::string wrong : {"nonsense", R"({"type": "kernel", "median_s": 1})",
                                  R"({"type": "step", "key": "x"})", "[1, 2]", "{}"}) {
    const RuntimeResults results =
        parse_runtime_results(lines({kHeader, kSharing, wrong, kCollective}), "file");
    EXPECT_EQ(results.sharing.size(), 1U) << wrong;
    EXPECT_EQ(results.collectives.size(), 1U) << wrong;
    EXPECT_EQ(results.rejected.size(), wrong == "{}" ? 0U : 1U) << wrong;
  }
}

// 16 heads of 128 in groups of 4, 2 sequences of 1024: forward 2 b a s^2 d FLOPs, q and o whole, k
// and v a quarter; backward the library counts five GEMMs, the simulator four.
TEST(RuntimeResults, ReadsKernelsOfLibrariesAsOperators) {
  const std::string shape =
      R"("heads": 16, "kv_heads": 4, "batch": 32, "m": 1024, "n": 1024, "k": 128, "causal": true, "dtype": "bf16")";
  const RuntimeResults results = parse_runtime_results(
      lines(
          {kHeader,
           R"({"type": "kernel", "kind": "library_attention", "attention": "flash", "pass": "forward", "flops": 8589934592, "median_s": 1e-4, )" +
               shape + "}",
           R"({"type": "kernel", "kind": "library_attention", "attention": "cudnn", "pass": "backward", "flops": 21474836480, "median_s": 3e-4, )" +
               shape + "}",
           R"({"type": "kernel", "kind": "library_gemm", "form": "wgrad", "dtype": "fp8", "m": 64, "n": 32, "k": 16, "flops": 65536, "median_s": 1e-5})",
           R"({"type": "kernel", "kind": "library_gemm", "data": "zeros", "dtype": "tf32", "m": 64, "n": 32, "k": 16, "flops": 65536, "median_s": 1e-5})"}),
      "file");
  ASSERT_EQ(results.kernels.size(), 4U);
  const double values = 32.0 * 1024 * 128;
  EXPECT_EQ(results.kernels[0].op.kind, sim::OperatorKind::Attention);
  EXPECT_EQ(results.kernels[0].attention, "flash");
  EXPECT_DOUBLE_EQ(results.kernels[0].op.flops.value(), 2.0 * 32 * 1024 * 1024 * 128);
  EXPECT_DOUBLE_EQ(results.kernels[0].op.moved.value(), 2.5 * values * 2.0);
  EXPECT_DOUBLE_EQ(results.kernels[1].op.flops.value(), 4.0 * 32 * 1024 * 1024 * 128);
  EXPECT_TRUE(results.kernels[1].backward);
  EXPECT_TRUE(results.kernels[2].op.weight_gradient);
  EXPECT_DOUBLE_EQ(results.kernels[2].op.moved.value(), 64 * 16 + 16 * 32 + 2.0 * 64 * 32);
  EXPECT_TRUE(results.kernels[3].zeros);
  EXPECT_EQ(results.kernels[3].op.dtype, sim::DType::Tf32);
}

TEST(RuntimeResults, CapturedStepsHaveNoParts) {
  const std::string run =
      R"({"id": "s", "group": "g", "source": "s", "model": {"name": "gpt2"}, "hardware": {"accelerator": "h100_sxm", "num_devices": 1}, "training": {"framework": "libtorch", "micro_batch": 1, "global_batch": 1}, "measured": {"step_time_s": 0.1}})";
  for (const std::string parts : {"", R"(, "forward_s": 0.0, "backward_s": 0.0)"}) {
    const RuntimeResults results = parse_runtime_results(
        lines({kHeader,
               R"({"type": "step", "key": "s", "optimizer_s": 0.01, "run": )" + run + parts + "}"}),
        "file");
    ASSERT_EQ(results.steps.size(), 1U) << (results.rejected.empty() ? "" : results.rejected[0]);
    EXPECT_FALSE(results.steps[0].forward || results.steps[0].backward);
    EXPECT_EQ(results.steps[0].optimizer, sim::Seconds(0.01));
  }
}

TEST(RuntimeResults, CountsWhatDidNotFitAndWhatWasRefused) {
  const RuntimeResults results = parse_runtime_results(
      lines(
          {kHeader, R"({"type": "kernel", "key": "a", "kind": "gemm", "outcome": "oom"})",
           R"({"type": "kernel", "key": "b", "kind": "gemm", "outcome": "refused", "reason": "x"})"}),
      "file");
  EXPECT_EQ(results.out_of_memory, 1);
  EXPECT_EQ(results.refused, 1);
  EXPECT_TRUE(results.kernels.empty());
}

TEST(RuntimeResults, LeavesOutALineThatWasCutOff) {
  const RuntimeResults results =
      parse_runtime_results(lines({kHeader}) + R"({"type": "ker)", "file");
  EXPECT_TRUE(results.truncated);
  EXPECT_TRUE(results.kernels.empty());
}

TEST(RuntimeResults, NamesTheLineThatIsWrong) {
  EXPECT_EQ(results_error(""), "file: is empty; a result file of llmsim-runtime is expected");
  EXPECT_EQ(results_error("{}\n"),
            "file:1: the header is missing; is this a file of llmsim-runtime?");
  EXPECT_TRUE(results_error(lines({kHeader, "nonsense"})).starts_with("file:2: malformed JSON"));
  EXPECT_TRUE(results_error(lines({kHeader, R"({"type": "kernel", "median_s": 1})"}))
                  .starts_with("file:2: no record of llmsim-runtime"));
}

}  // namespace
}  // namespace llmsim::hwdb
