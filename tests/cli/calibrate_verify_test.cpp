// llmsim calibrate verify, on a file of counted steps.
#include "cli/commands.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/base/error.h"
#include "tests/temporary_folder.h"

namespace llmsim::cli {
namespace {

constexpr const char* kVerifiedHeader =
    R"({"type": "header", "schema": 2, "started": "2026-11-21T20:00:00Z", "accelerator": "test_cpu", )"
    R"("device": {"name": "A CPU", "kind": "cpu", "threads": 1, "memory_bytes": 1e10, "last_level_cache_bytes": 32e6}, )"
    R"("library": {"libtorch": "1.13.0", "blas": "OpenBLAS"}})"
    "\n";

// A GPT of one layer of width 64, 96 words and 32 positions; the GEMMs of a step of one sequence by
// hand.
constexpr std::int64_t kBlock = 2 * 32 * (64 * 192 + 64 * 64 + 2 * 64 * 128),
                       kScores = 2 * 2 * 4 * 32 * 32 * 16;
constexpr std::int64_t kForward = kBlock + kScores + 2 * 32 * 64 * 96;
constexpr std::int64_t kParameters =
    96 * 64 + 32 * 64 + (64 * 192 + 192 + 64 * 64 + 64 + 2 * 64 * 128 + 128 + 64) + 3 * 2 * 64;

std::string counted(std::int64_t forward_gemms) {
  std::ostringstream line;
  line
      << R"({"type": "counted", "key": "one", "rank": 0, "stage": 0, "shard": 0, "run": {"id": "one", "model": {"name": "one", )"
      << R"("num_layers": 1, "hidden_size": 64, "num_heads": 4, "num_kv_heads": 4, "head_dim": 16, "ffn_size": 128, )"
      << R"("vocab_size": 96, "seq_len": 32, "norm": "layernorm", "position": "learned", "tied_embeddings": true, "bias": true}, )"
      << R"("hardware": {"accelerator": "nowhere", "num_devices": 1}, "training": {"framework": "libtorch", )"
      << R"("precision": "fp32", "optimizer": "adamw", "micro_batch": 1, "global_batch": 1, "flash_attention": false}}, )"
      << R"("counts": {"parameters": )" << kParameters << R"(, "forward": {"gemm_flops": )"
      << forward_gemms << R"(, "attention_flops": 0}, "backward": {"gemm_flops": )" << 2 * kForward
      << R"(, "attention_flops": 0}, )"
      << R"("bytes": {"persistent": 1, "after_forward": 2, "peak": 3, "host": 0, "host_peak": 0}, "sent": []}})"
      << "\n";
  return line.str();
}

class CalibrateVerify : public testing::Test {
 protected:
  CalibrateVerify() {
    options_.results = {folder_ / "results.jsonl"};
    options_.output.file = folder_ / "out";
    options_.output.format = "csv";
  }

  void write(const std::string& records) const {
    std::ofstream(options_.results.front()) << kVerifiedHeader << records;
  }
  std::string printed() const { return content_of(options_.output.file); }
  bool prints(const std::string& text) const { return printed().find(text) != std::string::npos; }

  const TemporaryFolder folder_;
  VerifyOptions options_;
};

TEST_F(CalibrateVerify, PrintsEachFigurePredictedAndMeasured) {
  write(counted(kForward));
  EXPECT_EQ(run_calibrate_verify(options_), 1);  // nobody holds 3 bytes
  const std::string gemms = std::to_string(kForward);
  EXPECT_TRUE(prints("one: forward GEMM FLOPs," + gemms + "," + gemms + ",yes\n")) << printed();
  EXPECT_TRUE(prints("one: parameters," + std::to_string(kParameters) + "," +
                     std::to_string(kParameters) + ",yes\n"))
      << printed();
  EXPECT_TRUE(prints(",3,NO\n")) << printed();
}

TEST_F(CalibrateVerify, NamesWhatDiffers) {
  write(counted(kForward + 2));
  EXPECT_EQ(run_calibrate_verify(options_), 1);
  EXPECT_TRUE(prints("one: forward GEMM FLOPs," + std::to_string(kForward) + "," +
                     std::to_string(kForward + 2) + ",NO\n"))
      << printed();
}

TEST_F(CalibrateVerify, JsonHasTheKeysThatAreDocumented) {
  write(counted(kForward));
  options_.output.format = "json";
  EXPECT_EQ(run_calibrate_verify(options_), 1);
  EXPECT_TRUE(prints(R"("comparisons": [)")) << printed();
  EXPECT_TRUE(prints(R"("name": "one: parameters")")) << printed();
  EXPECT_TRUE(prints(R"("equal": true)")) << printed();
  EXPECT_TRUE(prints(R"("equal": false)")) << printed();
}

TEST_F(CalibrateVerify, AFileWithoutCountedStepsIsRefused) {
  write("");
  EXPECT_THROW(run_calibrate_verify(options_), Error);
}

}  // namespace
}  // namespace llmsim::cli
