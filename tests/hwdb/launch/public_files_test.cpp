// Launch files of public repositories, see files/README.md.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hwdb/launch/launch_file.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

RunRecord public_file(const std::string& name) {
  return read_launch(std::string(LLMSIM_SOURCE_DIR) + "/tests/hwdb/launch/files/" + name).record;
}

std::string model_value(const RunRecord& record, const std::string& key) {
  const auto found = record.model.fields.find(key);
  return found == record.model.fields.end() ? "" : sim::text_of(found->second);
}

// Of the strategy or the settings; empty where the file leaves it open.
std::string value(const RunRecord& record, const std::string& key) {
  const RecordedTraining& t = record.training;
  if (const auto found = t.strategy.find(key); found != t.strategy.end())
    return sim::text_of(found->second);
  const auto setting = t.settings.find(key);
  return setting == t.settings.end() ? "" : sim::text_of(setting->second);
}

TEST(PublicFiles, Gpt3OfMegatron) {
  const RunRecord record = public_file("gpt3-175b.sh");
  EXPECT_EQ(record.hardware.num_devices, 8);
  EXPECT_EQ(model_value(record, "num_layers"), "96");
  EXPECT_EQ(model_value(record, "vocab_size"), "50257");  // pretrain_gpt.py: GPT2BPETokenizer
  EXPECT_EQ(model_value(record, "position"), "learned");
  EXPECT_EQ(model_value(record, "bias.mlp"), "true");
  EXPECT_EQ(value(record, "precision"), "fp16");
  EXPECT_EQ(value(record, "tp"), "8");
  EXPECT_EQ(value(record, "pp"), "16");
  EXPECT_EQ(value(record, "sharding"), "none");
  EXPECT_EQ(value(record, "dropout"), "0.1");
  EXPECT_EQ(value(record, "sequence_parallel"), "false");
}

TEST(PublicFiles, Llama3OfMegatronInFp8) {
  const RunRecord record = public_file("llama3-8b-fp8.sh");
  EXPECT_EQ(record.hardware.num_devices, 8);
  EXPECT_EQ(model_value(record, "num_kv_heads"), "8");
  EXPECT_EQ(model_value(record, "vocab_size"), "128256");  // of the branch that is taken
  EXPECT_EQ(model_value(record, "norm"), "layernorm");
  EXPECT_EQ(value(record, "precision"), "fp8");
  EXPECT_EQ(value(record, "fp8_recipe"), "delayed");
  EXPECT_EQ(value(record, "fp8_all_gather"), "true");
  EXPECT_EQ(value(record, "attention_kernel"), "cudnn");
  EXPECT_EQ(value(record, "gradient_dtype"), "bf16");
  EXPECT_EQ(value(record, "sharding"), "zero1");
  EXPECT_EQ(value(record, "gather_overlap"), "true");
  EXPECT_EQ(value(record, "global_batch"), "128");
}

TEST(PublicFiles, DeepSeekV3OfMegatronFsdp) {
  const RunRecord record = public_file("deepseek-v3-fsdp.sh");
  EXPECT_FALSE(record.hardware.num_devices);
  EXPECT_EQ(model_value(record, "moe.num_dense_layers"), "3");
  EXPECT_EQ(model_value(record, "moe.shared_expert_ffn_size"), "2048");
  EXPECT_EQ(model_value(record, "moe.groups_per_token"), "4");
  EXPECT_EQ(model_value(record, "mla.kv_lora_rank"), "512");
  EXPECT_EQ(model_value(record, "mtp_layers"), "1");
  EXPECT_EQ(model_value(record, "vocab_size"), "");
  EXPECT_EQ(value(record, "sharding"), "zero3");
  EXPECT_EQ(value(record, "ep"), "8");
  EXPECT_EQ(value(record, "micro_batch"), "4");
  EXPECT_EQ(value(record, "moe_dispatch"), "deepep");
  EXPECT_EQ(value(record, "recompute.modules"), "mlp+moe+layernorm+mla_up_proj");
  EXPECT_EQ(value(record, "gradient_accumulation_fusion"), "false");
}

TEST(PublicFiles, ASmallMixtralOfMegatron) {
  const RunRecord record = public_file("mixtral-small.sh");
  EXPECT_EQ(record.hardware.num_devices, 2);
  EXPECT_EQ(model_value(record, "moe.expert_ffn_size"), "896");  // that of the dense MLP
  EXPECT_EQ(model_value(record, "vocab_size"), "32000");
  EXPECT_EQ(value(record, "precision"), "fp32");  // --bf16 is a comment
  EXPECT_EQ(value(record, "grouped_gemm"), "false");
  EXPECT_EQ(value(record, "ep"), "2");
}

TEST(PublicFiles, Llama3OfTorchtitan) {
  const RunRecord small = public_file("llama3-8b.toml");
  EXPECT_EQ(small.model.name, "llama-3.1-8b");
  EXPECT_EQ(model_value(small, "seq_len"), "8192");
  EXPECT_EQ(value(small, "micro_batch"), "1");
  EXPECT_EQ(value(small, "sharding"), "zero3");
  EXPECT_EQ(value(small, "recompute.kind"), "op");
  EXPECT_EQ(value(small, "precision"), "bf16");
  const RunRecord large = public_file("llama3-405b.toml");
  EXPECT_EQ(large.model.name, "llama-3.1-405b");
  EXPECT_EQ(value(large, "precision"), "fp8");
  EXPECT_EQ(value(large, "fp8_recipe"), "current");
  EXPECT_EQ(value(large, "fp8_all_gather"), "true");
  EXPECT_EQ(value(large, "tp"), "8");
  EXPECT_EQ(value(large, "tp_overlap"), "true");
  EXPECT_EQ(value(large, "compile"), "true");
  EXPECT_EQ(value(large, "recompute.kind"), "full");
}

TEST(PublicFiles, DeepSeekV3OfTorchtitan) {
  const RunRecord record = public_file("deepseek-v3.toml");
  EXPECT_EQ(record.model.name, "deepseek-v3");
  EXPECT_EQ(value(record, "micro_batch"), "4");
  EXPECT_EQ(value(record, "precision"), "bf16");
  EXPECT_EQ(value(record, "ep"), "1");
  EXPECT_EQ(value(record, "compile"), "false");  // of the loss alone
}

TEST(PublicFiles, DeepSpeedLeavesOpenWhatIsAuto) {
  const RunRecord record = public_file("deepspeed-autotp.json");
  EXPECT_EQ(record.training.framework, "deepspeed");
  EXPECT_EQ(value(record, "sharding"), "zero2");
  EXPECT_EQ(value(record, "tp"), "4");
  EXPECT_EQ(value(record, "optimizer"), "adamw");
  for (const char* key : {"precision", "micro_batch", "global_batch"})
    EXPECT_EQ(value(record, key), "") << key;
}

TEST(PublicFiles, DeepSpeedWithTheHost) {
  const RunRecord record = public_file("deepspeed-offload.json");
  EXPECT_EQ(value(record, "sharding"), "zero3");
  EXPECT_EQ(value(record, "precision"), "bf16");
  EXPECT_EQ(value(record, "offload.optimizer"), "true");
  EXPECT_EQ(value(record, "offload.parameters"), "true");
  EXPECT_EQ(value(record, "gather_overlap"), "true");
}

TEST(PublicFiles, AnOptimizerThatIsNotModelledIsNamed) {
  const std::string message = error_of([] { public_file("deepspeed-llama-70b.json"); });
  EXPECT_NE(message.find("optimizer.type = OneBitAdam"), std::string::npos) << message;
}

TEST(PublicFiles, AccelerateWithTensorRanksAndHsdp) {
  const RunRecord record = public_file("accelerate-tp-hsdp.yaml");
  EXPECT_EQ(record.training.framework, "fsdp2");
  EXPECT_EQ(record.hardware.num_devices, 8);
  EXPECT_EQ(value(record, "tp"), "2");
  EXPECT_EQ(value(record, "dp"), "4");
  EXPECT_EQ(value(record, "sharding"), "hsdp");
  EXPECT_EQ(record.training.replicate_size, 2);
  EXPECT_EQ(value(record, "reshard_after_forward"), "true");
}

TEST(PublicFiles, OverridesOfAMegatronBridgeRecipe) {
  const RunRecord record = public_file("nemo-qwen3-30b.yaml");
  EXPECT_EQ(record.training.framework, "megatron-bridge");
  EXPECT_EQ(model_value(record, "seq_len"), "4096");
  EXPECT_EQ(value(record, "tp"), "4");
  EXPECT_EQ(value(record, "pp"), "2");
  EXPECT_EQ(value(record, "ep"), "4");
  EXPECT_EQ(value(record, "etp"), "1");
  EXPECT_EQ(value(record, "sequence_parallel"), "true");
  EXPECT_EQ(value(record, "micro_batch"), "2");
  EXPECT_EQ(value(record, "precision"), "bf16");
  EXPECT_EQ(value(record, "sharding"), "zero1");
}

TEST(PublicFiles, MegatronFsdpOfMegatronBridge) {
  const RunRecord record = public_file("nemo-llama3-8b-fsdp.yaml");
  EXPECT_EQ(value(record, "sharding"), "zero3");
  EXPECT_EQ(value(record, "global_batch"), "8");
}

TEST(PublicFiles, WhatMattersInARecipeAndIsNotModelledIsNamed) {
  const std::string message = error_of([] { public_file("nemo-kimi-k2-l8.yaml"); });
  EXPECT_NE(message.find("model.qk_clip = true: matters and is not modelled"), std::string::npos)
      << message;
}

TEST(PublicFiles, Llama2OfMaxTextOnGpus) {
  const RunRecord record = public_file("maxtext-llama2-70b.yml");
  EXPECT_EQ(record.training.framework, "maxtext");
  EXPECT_EQ(record.model.name, "llama-2-70b");
  EXPECT_EQ(model_value(record, "seq_len"), "4096");
  EXPECT_EQ(value(record, "micro_batch"), "6");
  EXPECT_EQ(value(record, "sharding"), "zero3");
  EXPECT_EQ(value(record, "recompute.kind"), "full");
  EXPECT_EQ(value(record, "precision"), "bf16");
  EXPECT_EQ(value(record, "dp"), "");  // what the devices leave
}

TEST(PublicFiles, MaxTextDividesWeightsOverNodes) {
  const RunRecord fp8 = public_file("maxtext-llama3-405b-fp8.yaml");
  EXPECT_EQ(value(fp8, "sharding"), "zero3");
  EXPECT_EQ(value(fp8, "dp"), "256");  // 32 nodes of 8
  EXPECT_EQ(value(fp8, "precision"), "fp8");
  const RunRecord copies = public_file("maxtext-llama3-405b-b200.yaml");
  EXPECT_EQ(value(copies, "sharding"), "hsdp");
  EXPECT_EQ(copies.training.replicate_size, 2);
  EXPECT_EQ(value(copies, "dp"), "256");  // 2 copies on 16 nodes of 8 each
  const RunRecord older = public_file("maxtext-llama2-7b-h100.yaml");
  EXPECT_EQ(value(older, "recompute.kind"), "op");  // minimal_flash
  EXPECT_EQ(value(older, "recompute.saved"), "qkv+core_attn+attn_proj+mlp_up+mlp_down");
}

TEST(PublicFiles, ScriptsOfMaxTextOnTpus) {
  const RunRecord llama = public_file("maxtext-llama2-70b-v5e.sh");
  EXPECT_EQ(llama.model.name, "llama-2-70b");
  EXPECT_EQ(model_value(llama, "seq_len"), "2048");  // of base.yml
  EXPECT_EQ(value(llama, "recompute.kind"), "op");
  EXPECT_EQ(value(llama, "recompute.saved"), "qkv");
  EXPECT_EQ(value(llama, "offload.activations"), "true");
  const RunRecord mixtral = public_file("maxtext-mixtral-v6e.sh");
  EXPECT_EQ(mixtral.model.name, "mixtral-8x7b");
  EXPECT_EQ(value(mixtral, "micro_batch"), "32");
  EXPECT_EQ(value(mixtral, "flash_attention"), "true");
}

TEST(PublicFiles, WhatMattersInMaxTextAndIsNotModelledIsNamed) {
  const std::string scaled = error_of([] { public_file("maxtext-64b-v5p.sh"); });
  EXPECT_NE(scaled.find("global_parameter_scale = 64: matters and is not modelled"),
            std::string::npos)
      << scaled;
  const std::string other = error_of([] { public_file("maxtext-llama2-7b-a3.sh"); });
  EXPECT_NE(other.find("base_config = llama2_7b.yml: matters and is not modelled"),
            std::string::npos)
      << other;
}

TEST(PublicFiles, AccelerateOnSlurm) {
  const RunRecord record = public_file("accelerate-fsdp.yaml");
  EXPECT_EQ(record.training.framework, "hf-trainer-fsdp");
  EXPECT_EQ(value(record, "sharding"), "zero3");
  EXPECT_EQ(value(record, "precision"), "");
  EXPECT_FALSE(record.hardware.num_devices);
}

}  // namespace
}  // namespace llmsim::hwdb
