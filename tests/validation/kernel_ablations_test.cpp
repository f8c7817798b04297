// Published ablations of kernels: one setting of one study changed, scored as the ratio of the two
// step times.
#include <gtest/gtest.h>

#include "tests/validation/predicted_step.h"

namespace llmsim::hwdb {
namespace {

RunRecord run_on(const std::string& accelerator, int num_devices, int num_layers, int seq_len) {
  RunRecord record;
  record.id = "ablation";
  record.hardware.accelerator = accelerator;
  record.hardware.num_devices = num_devices;
  record.model.fields["num_layers"] = num_layers;
  record.model.fields["seq_len"] = seq_len;
  return record;
}

// Llama 3 8B with 8192 tokens under torchtitan's FSDP2.
RunRecord llama_8b(const std::string& accelerator, int num_devices, int num_layers) {
  RunRecord record = run_on(accelerator, num_devices, num_layers, 8192);
  record.model.name = "llama-3-8b";
  record.training.framework = "torchtitan";
  record.training.strategy["precision"] = "bf16";
  record.training.strategy["sharding"] = "zero3";
  record.training.strategy["micro_batch"] = 1;
  record.training.num_microbatches = 1;
  record.training.strategy["compile"] = true;
  return record;
}

double kernel_ratio(RunRecord record, const std::string& slow, const std::string& fast,
                    const Database& facts = shipped_database()) {
  record.training.settings["attention_kernel"] = slow;
  const double before = step_seconds(record, facts);
  record.training.settings["attention_kernel"] = fast;
  return before / step_seconds(record, facts);
}

// torchtitan pull request 1196: 10,902 tokens/s with FlashAttention-2, 12,211 with cuDNN on 8 B200:
// 1.120, predicted 1.250.  The predicted step is too short by a third: 80 ms of 671 were saved, 130
// of 518 are predicted.
TEST(KernelAblations, CudnnAttentionIsWorthTwelvePercentOfAStepOnB200) {
  RunRecord record = llama_8b("b200_sxm", 8, 32);
  record.training.strategy["recompute.kind"] = "op";
  EXPECT_NEAR(kernel_ratio(record, "flash-2", "cudnn"), 12211.0 / 10902.0, 0.14);
}

// torchtitan issue 1042: about 10 % end to end, 14 layers on 2 H100 without recomputation;
// predicted 1.090.
TEST(KernelAblations, CudnnAttentionIsWorthTenPercentOfAStepOnH100) {
  EXPECT_NEAR(kernel_ratio(llama_8b("h100_sxm", 2, 14), "flash-2", "cudnn"), 1.10, 0.02);
}

// pytorch issue 135431 of 2024-09 on 8 nodes of Frontier: 645 tokens/s per GCD with the first
// kernels, 1250 with those after them: 1.938, predicted 2.28.  The rate of the first kernel is that
// of another device by its compute units and clock; it lies within its standard error, 40 %.
TEST(KernelAblations, AFixedBackwardKernelHalvesAStepOnFrontier) {
  RunRecord record = llama_8b("frontier", 64, 32);
  record.date = "2024-09-25";
  record.hardware.system = "frontier";
  record.hardware.accelerator = std::nullopt;
  record.training.strategy["compile"] = false;
  record.training.strategy["recompute.kind"] = "op";
  const double gained = 1250.0 / 645.0;
  EXPECT_GT(kernel_ratio(record, "aotriton-first", "aotriton"), gained);
  Database faster(":memory:");
  for (Coefficient rate : faster.coefficients("device", "mi250x_gcd")) {
    if (rate.key != "attention.aotriton-first.backward") continue;
    rate.value += rate.standard_error.value();
    faster.put(rate);
  }
  EXPECT_LT(kernel_ratio(record, "aotriton-first", "aotriton", faster), gained);
}

// BLOOM candidates of width 13824 on 48 nodes of 8 A100, tensor parallelism 8, 6 stages: 124.75 s
// with 96 heads of 144, 162.72 s with 128 heads of 108, which is no multiple of 8.
TEST(KernelAblations, MisalignedHeadsCostThirtyPercentWithoutAFusedKernel) {
  RunRecord record = run_on("a100_sxm_80", 384, 78, 2048);
  record.model.fields["hidden_size"] = 13824;
  record.model.fields["vocab_size"] = 250880;
  record.model.fields["position"] = "alibi";
  RecordedTraining& training = record.training;
  training.framework = "megatron-deepspeed";
  training.strategy["precision"] = "fp16";
  training.strategy["flash_attention"] = false;
  training.strategy["tp"] = 8;
  training.strategy["pp"] = 6;
  training.strategy["micro_batch"] = 4;
  training.strategy["global_batch"] = 2048;
  training.strategy["sharding"] = "zero1";
  training.strategy["recompute.kind"] = "full";
  record.model.fields["num_heads"] = 96;
  const double aligned = step_seconds(record);
  record.model.fields["num_heads"] = 128;
  EXPECT_NEAR(step_seconds(record) / aligned, 162.72 / 124.75, 0.08);
}

// OLMo's log: padding the vocabulary from 50257 to 50304 made a step of the 1.2B model 11 % faster
// on A100.
TEST(KernelAblations, APaddedVocabularyIsWorthElevenPercentOfASmallModel) {
  RunRecord record = run_on("a100_sxm_80", 8, 24, 2048);
  record.model.fields["hidden_size"] = 2048;
  record.model.fields["num_heads"] = 16;
  record.training.framework = "fsdp1";
  record.training.strategy["precision"] = "bf16";
  record.training.strategy["micro_batch"] = 8;
  record.training.num_microbatches = 1;
  record.model.fields["vocab_size"] = 50304;
  const double padded = step_seconds(record);
  record.model.fields["vocab_size"] = 50257;
  EXPECT_NEAR(step_seconds(record) / padded, 1.11, 0.06);
}

// torchao's table of Llama 3 8B on 8 H100: 1.065 s with a scale for each tensor, 1.210 s with one
// for each row.
TEST(KernelAblations, RowwiseScalesCostAnEighthOfAStepOnH100) {
  RunRecord record = llama_8b("h100_sxm", 8, 32);
  record.training.strategy["recompute.kind"] = "op";
  record.training.strategy["precision"] = "fp8";
  record.training.settings = {{"fp8_recipe", std::string("current")}, {"fp8_all_gather", true}};
  const double tensorwise = step_seconds(record);
  record.training.settings = {{"fp8_recipe", std::string("rowwise")}, {"fp8_all_gather", false}};
  EXPECT_NEAR(step_seconds(record) / tensorwise, 1.2104 / 1.0654, 0.05);
}

// torchao's table of Llama 3 8B on 8 MI300X: 1.391 s with rowwise scales, 1.343 s with weight
// gradients in 16 bits, 0.966; predicted 0.970.
TEST(KernelAblations, WeightGradientsInSixteenBitsAreFasterOnMi300x) {
  RunRecord record = llama_8b("mi300x", 8, 32);
  record.training.strategy["recompute.kind"] = "op";
  record.training.strategy["precision"] = "fp8";
  record.training.settings = {{"fp8_recipe", std::string("rowwise")}, {"fp8_all_gather", false}};
  const double low_precision = step_seconds(record);
  record.training.settings = {{"fp8_recipe", std::string("rowwise-gw-hp")},
                              {"fp8_all_gather", false}};
  EXPECT_NEAR(step_seconds(record) / low_precision, 1.343 / 1.391, 0.01);
}

}  // namespace
}  // namespace llmsim::hwdb
