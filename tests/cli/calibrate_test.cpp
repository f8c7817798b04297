// llmsim calibrate: from a file of llmsim-runtime to a device, and to predictions on it.
#include "cli/calibrate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "hwdb/database.h"
#include "hwdb/hardware.h"
#include "sim/base/error.h"
#include "sim/hardware/device.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader =
    R"({"type": "header", "schema": 1, "started": "2026-11-21T20:00:00Z", "accelerator": "test_cpu", )"
    R"("device": {"name": "A CPU", "kind": "cpu", "threads": 1, "memory_bytes": 1e10, "last_level_cache_bytes": 32e6}, )"
    R"("library": {"libtorch": "1.13.0", "blas": "OpenBLAS"}})";

// Products of 100 GFLOP/s: 2 m n k FLOP.
std::string product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double flops = 2.0 * static_cast<double>(m * n * k);
  std::ostringstream line;
  line << R"({"type": "kernel", "kind": "gemm", "dtype": "fp32", "m": )" << m << R"(, "n": )" << n << R"(, "k": )" << k
       << R"(, "flops": )" << flops << R"(, "moved_bytes": )" << 4 * (m * n + n * k + m * k) << R"(, "median_s": )"
       << flops / 1e11 << "}\n";
  return line.str();
}

constexpr const char* kCalls = R"({"type": "kernel", "kind": "launch", "kernels": 100, "median_s": 1e-4})"
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

class Calibrate : public testing::Test {
 protected:
  Calibrate() {
    fs::create_directories(folder_);
    options_.results = {(folder_ / "results.jsonl").string()};
    options_.database = (folder_ / "test.db").string();
    options_.output.file = (folder_ / "out").string();
    std::ofstream file(options_.results.front());
    file << kHeader << "\n" << kCalls;
    for (const std::int64_t size : {128, 256, 512}) file << product(size, 512, 256) << product(256, size, 1024);
    file << kStep;
  }
  ~Calibrate() override { fs::remove_all(folder_); }

  std::string printed() const {
    std::ifstream file(options_.output.file);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Tests run beside one another, each in a process of its own.
  fs::path folder_ = fs::path(testing::TempDir()) / ("llmsim_calibrate_test_" + std::to_string(getpid()));
  CalibrateOptions options_;
};

TEST_F(Calibrate, ImportStoresADeviceThatPredictionsCanName) {
  EXPECT_EQ(run_calibrate_import(options_), 0);
  EXPECT_NE(printed().find("stored as accelerator test_cpu"), std::string::npos) << printed();
  const hwdb::Database database(options_.database);
  const sim::Device device = hwdb::cluster(database, "test_cpu", 1).cluster.device;
  EXPECT_NEAR(device.memory_bandwidth / sim::GBps, 10.0, 1e-9);
  EXPECT_NEAR(device.achieved.kernel_time / sim::us, 1.0, 1e-9);
  EXPECT_NEAR(device.peak(sim::DType::Fp32).value(), 1.02e11, 1e8);
  EXPECT_EQ(device.achieved.gemm[static_cast<std::size_t>(sim::DType::Fp32)].alignment, 1);
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
  EXPECT_NE(printed().find("1 step(s), median error"), std::string::npos) << printed();
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
