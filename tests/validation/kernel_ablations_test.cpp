// Published ablations of kernels: one setting of one study changed, scored as the ratio of the two step times.
#include <gtest/gtest.h>

#include "hwdb/database.h"
#include "hwdb/run_resolver.h"
#include "sim/predict.h"

namespace llmsim::hwdb {
namespace {

double step_seconds(const RunRecord& record) {
  static const Database database(":memory:");
  RunResolver resolver(database);
  return sim::predict(resolver.resolve(record)).step_time.value();
}

// Llama 3 8B with 8192 tokens under torchtitan's FSDP2.
RunRecord llama_8b(const std::string& accelerator, int num_devices, int num_layers) {
  RunRecord record;
  record.id = "ablation";
  record.hardware.accelerator = accelerator;
  record.hardware.num_devices = num_devices;
  record.model.name = "llama-3-8b";
  record.model.num_layers = num_layers;
  record.model.seq_len = 8192;
  record.training.framework = "torchtitan";
  record.training.precision = "bf16";
  record.training.sharding = "zero3";
  record.training.micro_batch = 1;
  record.training.num_microbatches = 1;
  record.training.compile = true;
  return record;
}

double kernel_ratio(RunRecord record, const std::string& slow, const std::string& fast) {
  record.training.attention_kernel = slow;
  const double before = step_seconds(record);
  record.training.attention_kernel = fast;
  return before / step_seconds(record);
}

// torchtitan pull request 1196: 10,902 tokens/s with FlashAttention-2, 12,211 with cuDNN on 8 B200.
TEST(KernelAblations, CudnnAttentionIsWorthTwelvePercentOfAStepOnB200) {
  RunRecord record = llama_8b("b200_sxm", 8, 32);
  record.training.recompute = RecordedRecompute{.kind = "op", .detail = std::nullopt, .every_n = std::nullopt};
  EXPECT_NEAR(kernel_ratio(record, "flash-2", "cudnn"), 12211.0 / 10902.0, 0.15);
}

// torchtitan issue 1042: about 10 % end to end, 14 layers on 2 H100 without recomputation.
TEST(KernelAblations, CudnnAttentionIsWorthTenPercentOfAStepOnH100) {
  EXPECT_NEAR(kernel_ratio(llama_8b("h100_sxm", 2, 14), "flash-2", "cudnn"), 1.10, 0.05);
}

// pytorch issue 135431 on 8 nodes of Frontier: 645 tokens/s per GCD with the first kernels, 1250 with those after them.
TEST(KernelAblations, AFixedBackwardKernelHalvesAStepOnFrontier) {
  RunRecord record = llama_8b("frontier", 64, 32);
  record.hardware.system = "frontier";
  record.hardware.accelerator = std::nullopt;
  record.training.compile = false;
  record.training.recompute = RecordedRecompute{.kind = "op", .detail = std::nullopt, .every_n = std::nullopt};
  EXPECT_NEAR(kernel_ratio(record, "aotriton-first", "aotriton"), 1250.0 / 645.0, 0.3);
}

}  // namespace
}  // namespace llmsim::hwdb
