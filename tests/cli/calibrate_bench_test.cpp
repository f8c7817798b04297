// llmsim calibrate bench: from the output of benchmarks to a device or a site that predict knows.
#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

// Eight ranks of one node that reach 300 GB/s of the bus: S x 1.75 / 300 GB/s and 30 us.
std::string table_text() {
  std::string text =
      "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 1048576\n";
  for (int i = 0; i < 8; ++i)
    text += "#  Rank  " + std::to_string(i) + " Group  0 Pid  1 on  node-0 device  " +
            std::to_string(i) + " [0000:1b:00] NVIDIA H100 80GB HBM3\n";
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong\n";
  for (long long bytes = 1 << 20; bytes <= 1LL << 32; bytes *= 2) {
    const double us = 30.0 + static_cast<double>(bytes) * 1.75 / 300e3;
    const double rate = static_cast<double>(bytes) / us * 1e-3;
    const std::string way = " " + std::to_string(us) + " " + std::to_string(rate) + " " +
                            std::to_string(1.75 * rate) + " 0";
    text += std::to_string(bytes) + " " + std::to_string(bytes / 4) + " float sum -1" + way + way +
            "\n";
  }
  return text;
}

constexpr const char* kMamf =
    "** Dtype: torch.bfloat16\n"
    "- _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0)\n"
    "median: 650.0 TFLOPS @ 8192x8192x8192 (MxNxK)\n";

class CalibrateBench : public Program {
 protected:
  CalibrateBench() {
    write("nccl.txt", table_text());
    write("mamf.txt", kMamf);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  std::string step_of(const std::string& options) const {
    const Outcome outcome = run("predict --model llama3-8b --gpus 8 --sharding zero3 " + options);
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.messages;
    const std::size_t at = outcome.out.find("step time");
    return at == std::string::npos ? "" : outcome.out.substr(at, 30);
  }
};

TEST_F(CalibrateBench, StoresADeviceThatPredictKnows) {
  const Outcome outcome = run("calibrate bench nccl.txt mamf.txt");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(has(outcome.out, "bf16.max_efficiency")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "collective_fraction")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "llmsim predict --hardware my_h100_sxm")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "read nccl.txt: nccl-tests")) << outcome.out;
  const std::string measured = step_of("--hardware my_h100_sxm");
  EXPECT_FALSE(measured.empty());
  EXPECT_NE(measured, step_of("--hardware h100_sxm"));
  EXPECT_TRUE(has(run("hardware show my_h100_sxm").out, "llmsim calibrate bench"));
}

TEST_F(CalibrateBench, FitsAScreenOfAHundredColumns) {
  const std::string out = run("calibrate bench nccl.txt mamf.txt --dry-run").out;
  for (std::size_t begin = 0; begin < out.size();) {
    const std::size_t end = out.find('\n', begin);
    EXPECT_LE(end - begin, 100U) << out.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_TRUE(has(out, "bf16.wave_quantisation  ")) << out;
}

TEST_F(CalibrateBench, StoresNothingInADryRun) {
  const Outcome outcome = run("calibrate bench nccl.txt --name mine --dry-run");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(has(outcome.out, "not stored (--dry-run)")) << outcome.out;
  EXPECT_EQ(run("hardware show mine").status, 1);
}

TEST_F(CalibrateBench, TakesANameOnceUnlessItReplaces) {
  EXPECT_EQ(run("calibrate bench mamf.txt --name mine").status, 0);
  const Outcome again = run("calibrate bench nccl.txt --name mine");
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(
      has(again.messages, "--name = mine: is taken by an accelerator that was added before"))
      << again.messages;
  EXPECT_EQ(run("calibrate bench nccl.txt --name mine --replace").status, 0);
  // Of the earlier one nothing is left.
  EXPECT_FALSE(has(run("hardware show mine").out, "mamf-finder"));
  const Outcome named = run("calibrate bench nccl.txt --name My-H100");
  EXPECT_EQ(named.status, 1);
  EXPECT_TRUE(has(named.messages, "lower-case letters, digits and '_' are expected"))
      << named.messages;
}

TEST_F(CalibrateBench, StoresASiteInstead) {
  const Outcome outcome = run("calibrate bench nccl.txt --site ours");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(has(outcome.out, "network_rate")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "--site ours --hardware h100_sxm")) << outcome.out;
  EXPECT_TRUE(has(run("predict --model llama3-8b --gpus 8 --sharding zero3 --site ours").out,
                  "site ours is known by benchmarks alone"));
  EXPECT_TRUE(has(run("calibrate show").out, "ours"));
  EXPECT_EQ(run("calibrate bench nccl.txt --site ours").status, 1);
  EXPECT_EQ(run("calibrate bench nccl.txt --site ours --replace").status, 0);
  EXPECT_EQ(run("calibrate bench nccl.txt --site ours --name mine").status, 2);
}

TEST_F(CalibrateBench, PrintsWhatMachinesRead) {
  const Outcome json = run("calibrate bench nccl.txt --dry-run --format json -o out.json");
  EXPECT_EQ(json.status, 0) << json.messages;
  EXPECT_TRUE(has(text_of("out.json"), "\"key\": \"collective_fraction\"")) << text_of("out.json");
  EXPECT_TRUE(has(run("calibrate bench nccl.txt --dry-run --format csv").out, "standard_error"));
  EXPECT_TRUE(has(run("calibrate bench nccl.txt --dry-run --format markdown").out, "| ---"));
}

TEST_F(CalibrateBench, ExamplesOfItsHelpRun) {
  write("all_reduce.txt", table_text());
  write("clocks.csv",
        "index, name, clocks.current.sm [MHz], power.draw [W]\n"
        "0, NVIDIA H100 80GB HBM3, 1980 MHz, 100 W\n0, NVIDIA H100 80GB HBM3, 1600 MHz, 690 W\n");
  const Outcome device = run("calibrate bench all_reduce.txt mamf.txt clocks.csv --name my_h100");
  EXPECT_EQ(device.status, 0) << device.messages;
  EXPECT_TRUE(has(device.out, "sustained_clock")) << device.out;
  const Outcome site = run("calibrate bench nccl.txt --like h100_sxm --site our-cluster");
  EXPECT_EQ(site.status, 0) << site.messages;
}

TEST_F(CalibrateBench, ExplainsWhatItCannotRead) {
  write("other.txt", "hello\n");
  const Outcome other = run("calibrate bench other.txt --like h100_sxm");
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(has(other.messages, "other.txt: output of none of these: nccl-tests"))
      << other.messages;
  const Outcome like = run("calibrate bench nccl.txt --like h100_smx");
  EXPECT_EQ(like.status, 1);
  EXPECT_TRUE(has(like.messages, "h100_sxm")) << like.messages;
  const Outcome kind = run("calibrate bench nccl.txt --collective all_redux");
  EXPECT_EQ(kind.status, 1);
  EXPECT_TRUE(has(kind.messages, "one of all-reduce, all-gather")) << kind.messages;
}

}  // namespace
}  // namespace llmsim::cli
