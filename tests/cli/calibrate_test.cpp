// llmsim calibrate: from a file of llmsim-runtime to a device, and to predictions on it.
#include "cli/commands.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "hwdb/hardware/hardware.h"
#include "hwdb/store/database.h"
#include "sim/base/error.h"
#include "sim/hardware/device.h"
#include "tests/temporary_folder.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader =
    R"({"type": "header", "schema": 2, "started": "2026-11-21T20:00:00Z", "accelerator": "test_cpu", )"
    R"("device": {"name": "A CPU", "kind": "cpu", "threads": 1, "memory_bytes": 1e10, "last_level_cache_bytes": 32e6}, )"
    R"("library": {"libtorch": "1.13.0", "blas": "OpenBLAS"}})";

// GEMMs of 100 GFLOP/s: 2 m n k FLOP.
std::string gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  std::ostringstream line;
  line << R"({"type": "kernel", "kind": "gemm", "dtype": "fp32", "m": )" << m << R"(, "n": )" << n
       << R"(, "k": )" << k << R"(, "flops": )" << flops << R"(, "moved_bytes": )"
       << 4 * (m * n + n * k + m * k) << R"(, "median_s": )" << flops / 1e11 << "}\n";
  return line.str();
}

constexpr const char* kCalls =
    R"({"type": "kernel", "kind": "launch", "kernels": 100, "median_s": 1e-4})"
    "\n"
    R"({"type": "kernel", "kind": "stream_copy", "moved_bytes": 2e8, "median_s": 0.02})"
    "\n";

constexpr const char* kStep =
    R"({"type": "step", "key": "step", "forward_s": 0.1, "backward_s": 0.2, "optimizer_s": 0.1, "spread": 0.01, "run": )"
    R"({"id": "small step", "model": {"name": "small", "num_layers": 2, "hidden_size": 256, "num_heads": 4, "num_kv_heads": 4, )"
    R"("head_dim": 64, "ffn_size": 1024, "vocab_size": 1024, "seq_len": 128, "norm": "layernorm", "position": "learned", )"
    R"("tied_embeddings": true, "bias": true}, "hardware": {"accelerator": "test_cpu", "num_devices": 1}, )"
    R"("training": {"framework": "libtorch", "precision": "fp32", "optimizer": "adamw", "micro_batch": 2, "global_batch": 2}, )"
    R"("measured": {"step_time_s": 0.4, "outcome": "ok"}}})"
    "\n";

// What two ranks of the same device measured: exchanges at 1 GB/s after 100 us, sums at 4 GB/s, and
// what they take from each other.
std::string ranks_records() {
  std::ostringstream lines;
  const auto collective = [&](const char* kind, double bytes, double time) {
    lines << R"({"type": "collective", "kind": ")" << kind
          << R"(", "dtype": "fp32", "ranks": 2, "ranks_per_node": 2, "nodes": 1, )"
          << R"("bytes": )" << bytes << R"(, "median_s": )" << time << "}\n";
  };
  for (double bytes = 1e3; bytes < 1e8; bytes *= 10.0) {
    collective("all_gather", bytes, 1e-4 + bytes / 2.0 / 1e9);
    collective("reduce_scatter", bytes, 1e-4 + bytes / 2.0 / 1e9 + bytes / 2.0 / 4e9);
  }
  lines
      << R"({"type": "overlap", "kind": "all_gather", "ranks": 2, "collective_slowdown": 2.0, "gemm_slowdown": 1.6})"
      << "\n"
      << R"({"type": "sharing", "kind": "gemm", "ranks": 2, "slowdown": 1.05})"
      << "\n"
      << R"({"type": "sharing", "kind": "copy", "ranks": 2, "slowdown": 1.25})"
      << "\n";
  return lines.str();
}

class Calibrate : public testing::Test {
 protected:
  Calibrate() {
    options_.results = {folder_ / "results.jsonl"};
    options_.database = folder_ / "test.db";
    options_.output.file = folder_ / "out";
    std::ofstream file(options_.results.front());
    file << kHeader << "\n" << kCalls;
    for (const std::int64_t size : {128, 256, 512})
      file << gemm(size, 512, 256) << gemm(256, size, 1024);
    file << kStep;
  }

  std::string printed() const { return content_of(options_.output.file); }

  const TemporaryFolder folder_;
  CalibrateOptions options_;
};

TEST_F(Calibrate, ImportStoresADeviceThatPredictionsCanName) {
  EXPECT_EQ(run_calibrate_import(options_), 0);
  EXPECT_NE(printed().find("stored as accelerator test_cpu"), std::string::npos) << printed();
  const hwdb::Database database(options_.database);
  const sim::Device device = hwdb::cluster(database, "test_cpu", 1).cluster.device;
  EXPECT_NEAR(device.memory_bandwidth / sim::GBps, 10.0, 1e-9);
  EXPECT_NEAR(device.achieved.kernel_time / sim::us, 1.0, 1e-9);
  // The fastest GEMM, or a little more: what fitted rates of large ones come to.
  EXPECT_NEAR(device.peak(sim::DType::Fp32).value(), 1.04e11, 0.02e11);
  EXPECT_EQ(device.achieved.gemm[static_cast<std::size_t>(sim::DType::Fp32)].alignment, 1);
}

TEST_F(Calibrate, ImportReadsWhatRanksOfAHostShare) {
  options_.results.push_back(folder_ / "ranks.jsonl");
  std::ofstream(options_.results.back()) << kHeader << "\n" << ranks_records();
  EXPECT_EQ(run_calibrate_import(options_), 0);
  const hwdb::Database database(options_.database);
  const sim::Cluster cluster = hwdb::cluster(database, "test_cpu", 2).cluster;
  EXPECT_EQ(cluster.fabric.kind, sim::FabricKind::Loopback);
  EXPECT_EQ(cluster.devices_per_node, 2);
  EXPECT_NEAR(cluster.fabric.latency / sim::us, 100.0, 5.0);
  EXPECT_NEAR(cluster.fabric.sum_bandwidth / sim::GBps, 4.0, 0.4);
  const sim::Achieved& achieved = cluster.device.achieved;
  EXPECT_NEAR(achieved.collective_fraction * cluster.fabric.device_bandwidth / sim::GBps, 1.0,
              0.05);
  EXPECT_DOUBLE_EQ(achieved.sharing.collectives, 2.0 * (1.0 - 1.0 / 1.6));
  EXPECT_NEAR(achieved.sharing.gemms, 0.05, 1e-12);
  EXPECT_NEAR(achieved.sharing.memory_bound, 0.25, 1e-12);
}

TEST_F(Calibrate, RanksHaveTheThreadsOfTheKernels) {
  std::string header = kHeader;
  header.replace(header.find(R"("threads": 1)"), 12, R"("threads": 4)");
  options_.results.push_back(folder_ / "ranks.jsonl");
  std::ofstream(options_.results.back()) << header << "\n" << ranks_records();
  try {
    run_calibrate_import(options_);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("threads = 4, 1 in the files before it"),
              std::string::npos)
        << error.what();
  }
}

// A stand-in for llmsim-runtime that writes down how it was called to measure, and puts prepared
// records into its --output.
class CalibrateRun : public Calibrate {
 protected:
  CalibrateRun() {
    std::ofstream(folder_ / "of_ranks") << kHeader << "\n" << ranks_records();
    fs::rename(options_.results.front(), folder_ / "of_one");
    const std::string program = folder_ / "runtime";
    std::ofstream(program) << "#!/bin/sh\ncase \"$*\" in *--name*) echo test_cpu; exit ;; esac\n"
                           << "cd '" << folder_.path() << "' && echo \"$@\" >> calls\n"
                           << "case \"$*\" in *--nodes*) exit ;; *--ranks*) cp of_ranks \"$2\" ;; "
                              "*) cp of_one \"$2\" ;; esac\n";
    fs::permissions(program, fs::perms::owner_all);
    setenv("LLMSIM_RUNTIME", program.c_str(), 1);
  }
  ~CalibrateRun() override { unsetenv("LLMSIM_RUNTIME"); }

  std::vector<std::string> calls() const {
    std::ifstream file(folder_ / "calls");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(CalibrateRun, MeasuresOneRankAndThenSeveral) {
  options_.ranks = 2;
  options_.threads = 1;
  options_.budget = 100.0;
  EXPECT_EQ(run_calibrate_run(options_), 0);
  ASSERT_EQ(calls().size(), 2U);
  EXPECT_EQ(calls()[0], "--output " + options_.results.front() + " --threads 1 --budget 60.000000");
  EXPECT_EQ(calls()[1], "--output " + folder_ / "results.ranks.jsonl" +
                            " --threads 1 --ranks 2 --collectives --steps --budget 40.000000");
  const hwdb::Database database(options_.database);
  EXPECT_EQ(hwdb::cluster(database, "test_cpu", 2).cluster.fabric.kind, sim::FabricKind::Loopback);
}

TEST_F(CalibrateRun, OneRankIsMeasuredOnce) {
  options_.quick = true;
  EXPECT_EQ(run_calibrate_run(options_), 0);
  ASSERT_EQ(calls().size(), 1U);
  EXPECT_EQ(calls()[0], "--output " + options_.results.front() + " --quick");
}

// The program prints the lines of the launchers; nothing is measured or imported.
TEST_F(CalibrateRun, OfSeveralNodesIsPrinted) {
  options_.ranks = 4;
  options_.nodes = 2;
  EXPECT_EQ(run_calibrate_run(options_), 0);
  ASSERT_EQ(calls().size(), 1U);
  EXPECT_EQ(calls()[0], "--output " + folder_ / "results.ranks.jsonl" +
                            " --ranks 4 --collectives --steps --nodes 2");
  EXPECT_FALSE(fs::exists(options_.database));
}

// A step of eight ranks, on one: what is run is written beside the results, and what was measured
// stands beside the prediction of what was run.
TEST_F(CalibrateRun, AStepIsAskedOfTheRuntimeAndPredicted) {
  EXPECT_EQ(run_calibrate_run(options_), 0);  // the device
  options_.step = folder_ / "run.json";
  std::ofstream(options_.step)
      << R"({"id": "mine", "model": {"name": "gpt2"}, "hardware": {"accelerator": "h100_sxm", )"
      << R"("num_devices": 8}, "training": {"framework": "megatron-lm", "dp": 8, "micro_batch": 1, )"
      << R"("global_batch": 16, "sharding": "zero1"}})";
  options_.budget = 1e6;
  EXPECT_EQ(run_calibrate_run(options_), 0);
  ASSERT_EQ(calls().size(), 2U);
  const std::string file = folder_ / "results.step.json";
  EXPECT_EQ(calls()[1], "--output " + options_.results.front() + " --step " + file +
                            " --budget 1000000.000000");
  const std::string step = content_of(file);
  EXPECT_NE(step.find(R"("id": "mine")"), std::string::npos) << step;
  EXPECT_NE(step.find(R"("dp": 1)"), std::string::npos) << step;
  EXPECT_NE(step.find(R"("global_batch": 2)"), std::string::npos) << step;
  for (const char* words : {"A step of small step on A CPU", "step                     400",
                            "a proxy: dp 8 -> 1", "optimizer_states", "0 of 0 figures are equal"})
    EXPECT_NE(printed().find(words), std::string::npos) << words << "\n" << printed();
  options_.output.format = "json";
  EXPECT_EQ(run_calibrate_run(options_), 0);
  EXPECT_NE(printed().find(R"("measured_s": 0.4)"), std::string::npos) << printed();
}

// What cannot be stored in the end is refused before anything is measured.
class CalibrateRunRefuses : public CalibrateRun {
 protected:
  void expect_refused(const std::string& reason) const {
    try {
      run_calibrate_run(options_);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
    EXPECT_TRUE(calls().empty()) << calls().front();
  }
};

// test_cpu is not stored: nothing would tell how long the step should take.
TEST_F(CalibrateRunRefuses, AStepOnADeviceThatIsNotStored) {
  options_.step = folder_ / "run.json";
  options_.device = "cpu";
  std::ofstream(options_.step) << R"({"model": {"name": "gpt2"}, "training": {}})";
  expect_refused("no device test_cpu is stored to predict the step on: measure it once with");
}

TEST_F(CalibrateRunRefuses, AnIdThatIsTaken) {
  CalibrateOptions importing = options_;
  importing.results = {folder_ / "of_one"};
  EXPECT_EQ(run_calibrate_import(importing), 0);
  expect_refused("--id = test_cpu: is taken by an accelerator that was added before");
  options_.replace = true;
  EXPECT_EQ(run_calibrate_run(options_), 0);
  EXPECT_EQ(calls().size(), 1U);
}

TEST_F(CalibrateRunRefuses, AResultFileThatExists) {
  options_.ranks = 2;
  std::ofstream(folder_ / "results.ranks.jsonl") << kHeader << "\n";
  expect_refused("results.ranks.jsonl: exists already");
  options_.resume = true;
  EXPECT_EQ(run_calibrate_run(options_), 0);
}

TEST_F(CalibrateRunRefuses, WhatCannotBeWritten) {
  const std::string nowhere = folder_ / "no/such/folder/file";
  const CalibrateOptions good = options_;
  options_.results = {nowhere};
  expect_refused(nowhere + ": cannot be written: No such file or directory");
  options_ = good, options_.output.file = nowhere;
  expect_refused(nowhere + ": cannot be written: No such file or directory");
  options_.output.file = folder_.path();
  expect_refused(folder_.path() + ": cannot be written: Is a directory");
  options_ = good, options_.database = folder_ / "of_one/test.db";  // below a file
  expect_refused("of_one/test.db");
}

// An id that the program itself refuses; its message stands above.
TEST_F(CalibrateRunRefuses, WhatTheProgramDoes) {
  std::ofstream(folder_ / "runtime") << "#!/bin/sh\nexit 1\n";
  expect_refused("nothing was measured; llmsim-runtime says why above");
}

TEST_F(Calibrate, AStoredDeviceIsReplacedOnlyWhenAsked) {
  EXPECT_EQ(run_calibrate_import(options_), 0);
  EXPECT_THROW(run_calibrate_import(options_), Error);
  options_.replace = true;
  EXPECT_EQ(run_calibrate_import(options_), 0);
}

TEST_F(Calibrate, CompareHoldsTheFilesStepsAgainstTheDevice) {
  EXPECT_EQ(run_calibrate_import(options_), 0);
  EXPECT_EQ(run_calibrate_compare(options_), 0);
  EXPECT_NE(printed().find("small step"), std::string::npos) << printed();
  EXPECT_NE(printed().find("1 step(s): median error"), std::string::npos) << printed();
}

TEST_F(Calibrate, CompareNeedsTheDevice) {
  try {
    run_calibrate_compare(options_);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("test_cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace llmsim::cli
