// Files of programs that are read and not written: see files/README.md.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hwdb/launch/launch_file.h"
#include "hwdb/text/input_file.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

std::string files_folder() { return std::string(LLMSIM_SOURCE_DIR) + "/tests/hwdb/launch/files/"; }

RunRecord program_file(const std::string& name) {
  return read_launch(files_folder() + name).record;
}

RunRecord record_in(const std::string& text) { return parse_launch(text, "a.yaml").record; }

// Of the model, the strategy or the settings; empty where the file leaves it open.
std::string said(const RunRecord& record, const std::string& key) {
  const RecordedTraining& t = record.training;
  if (const auto found = t.strategy.find(key); found != t.strategy.end())
    return sim::text_of(found->second);
  if (const auto setting = t.settings.find(key); setting != t.settings.end())
    return sim::text_of(setting->second);
  const auto found = record.model.fields.find(key);
  return found == record.model.fields.end() ? "" : sim::text_of(found->second);
}

// "KEY=VALUE ..." of those keys.
std::string all_said(const RunRecord& record, const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += key + "=" + said(record, key) + " ";
  return text;
}

using Layers = std::vector<std::string>;

TEST(OtherPrograms, AxolotlWithFsdpAndLiger) {
  const RunRecord record = program_file("axolotl-llama3-8b-fsdp.yaml");
  EXPECT_EQ(record.model.name, "llama-3.1-8b");
  EXPECT_EQ(record.training.framework, "hf-trainer-fsdp");
  EXPECT_EQ(record.training.num_microbatches, 4);
  EXPECT_EQ(
      all_said(record, {"seq_len", "micro_batch", "precision", "sharding", "offload.parameters",
                        "recompute.kind", "optimizer", "fused_loss", "flash_attention"}),
      "seq_len=4096 micro_batch=2 precision=bf16 sharding=zero3 offload.parameters=true "
      "recompute.kind=full optimizer=adamw fused_loss=gradient flash_attention=true ");
}

// dp_shard_size * dp_replicate_size ranks of data, each of two tensor ranks.
TEST(OtherPrograms, AxolotlsMesh) {
  const RunRecord record = record_in(
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nbf16: true\nfsdp_version: 2\n"
      "dp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2\n");
  EXPECT_EQ(record.training.framework, "fsdp2");
  EXPECT_EQ(record.training.replicate_size, 2);
  EXPECT_EQ(all_said(record, {"dp", "tp", "sharding", "recompute.kind"}),
            "dp=8 tp=2 sharding=hsdp recompute.kind=none ");
}

TEST(OtherPrograms, AxolotlsAdapters) {
  const std::string file =
      "base_model: NousResearch/Llama-3.2-1B\nsequence_len: 2048\nbf16: auto\n";
  const RunRecord four = record_in(file +
                                   "adapter: qlora\nload_in_4bit: true\nlora_r: 32\n"
                                   "lora_target_linear: true\noptimizer: paged_adamw_8bit\n");
  EXPECT_EQ(four.model.lora_rank, 32);
  EXPECT_EQ(four.model.lora_targets, Layers{"all"});
  EXPECT_EQ(four.training.framework, "peft");
  EXPECT_EQ(all_said(four, {"precision", "optimizer"}), "precision=nf4 optimizer=adam8bit ");
  const RunRecord some =
      record_in(file + "adapter: lora\nlora_r: 8\nlora_target_modules:\n  - q_proj\n  - v_proj\n");
  EXPECT_EQ(some.model.lora_targets, (Layers{"q", "v"}));
  EXPECT_EQ(said(some, "precision"), "bf16");
  EXPECT_EQ(error_of([&] { record_in(file + "adapter: lora\nload_in_8bit: true\n"); }),
            "a.yaml: load_in_8bit = true of axolotl: matters and is not modelled");
  EXPECT_EQ(error_of([&] { record_in(file + "rl: dpo\n"); }),
            "a.yaml: rl = dpo of axolotl: matters and is not modelled");
}

TEST(OtherPrograms, WhatAnotherFileSaysIsLeftOpen) {
  const ReadLaunch read = parse_launch(
      "base_model: Qwen/Qwen3-4B\nsequence_len: 2048\ndeepspeed: deepspeed_configs/zero2.json\n",
      "a.yaml");
  EXPECT_EQ(read.record.training.framework, "hf-trainer-deepspeed");
  EXPECT_EQ(said(read.record, "sharding"), "");
  ASSERT_EQ(read.elsewhere.size(), 1U);
  EXPECT_EQ(read.elsewhere[0].field, "sharding");
  EXPECT_EQ(read.elsewhere[0].named, "deepspeed = deepspeed_configs/zero2.json");
}

TEST(OtherPrograms, LlamaFactory) {
  const RunRecord record = program_file("llamafactory-qwen3-4b-lora.yaml");
  EXPECT_EQ(record.model.name, "qwen3-4b");  // of Qwen3-4B-Instruct-2507
  EXPECT_EQ(record.model.lora_rank, 8);
  EXPECT_EQ(record.model.lora_targets, Layers{"all"});
  EXPECT_EQ(record.training.framework, "peft");
  EXPECT_EQ(record.training.num_microbatches, 8);
  EXPECT_EQ(all_said(record, {"seq_len", "micro_batch", "precision", "sharding", "recompute.kind"}),
            "seq_len=2048 micro_batch=1 precision=bf16 sharding=none recompute.kind=full ");
}

TEST(OtherPrograms, TrlHasTheDefaultsOfItsOwnTrainer) {
  const std::string file = "model_name_or_path: Qwen/Qwen2.5-7B\ndataset_name: trl-lib/Capybara\n";
  const RunRecord record = record_in(file);
  EXPECT_EQ(record.training.framework, "hf-trainer");
  EXPECT_EQ(all_said(record, {"seq_len", "micro_batch", "precision", "recompute.kind", "sharding"}),
            "seq_len=1024 micro_batch=8 precision=bf16 recompute.kind=full sharding=none ");
  const RunRecord sharded = record_in(file + "accelerate_config: fsdp2\nuse_peft: true\n");
  EXPECT_EQ(sharded.training.framework, "fsdp2");
  EXPECT_EQ(sharded.model.lora_rank, 16);
  EXPECT_EQ(sharded.model.lora_targets, (Layers{"q", "v"}));
  EXPECT_EQ(said(sharded, "sharding"), "zero3");
  const ReadLaunch command = parse_launch(
      "accelerate launch --num_processes 8 sft.py --model_name_or_path Qwen/Qwen2.5-7B \\\n"
      "  --dataset_name x --gradient_accumulation_steps 4\n"
      "echo done\n",
      "a.sh", {.target = "trl"});
  EXPECT_EQ(command.record.training.num_microbatches, 4);
}

TEST(OtherPrograms, SwiftsScripts) {
  const RunRecord record = program_file("swift-qwen2.5-14b-zero2.sh");
  EXPECT_EQ(record.model.name, "qwen2.5-14b");
  EXPECT_EQ(record.hardware.num_devices, 8);
  EXPECT_EQ(record.training.framework, "hf-trainer-deepspeed");
  EXPECT_EQ(record.training.num_microbatches, 2);
  EXPECT_EQ(all_said(record, {"seq_len", "sharding", "offload.optimizer", "flash_attention"}),
            "seq_len=8192 sharding=zero2 offload.optimizer=false flash_attention=true ");
}

TEST(OtherPrograms, SwiftsMegatron) {
  const RunRecord record = program_file("swift-megatron-qwen2.5-72b.sh");
  EXPECT_EQ(record.model.name, "qwen2.5-72b");
  EXPECT_EQ(record.training.framework, "megatron-lm");
  EXPECT_EQ(all_said(record, {"tp", "pp", "global_batch", "sequence_parallel", "recompute.kind",
                              "offload.optimizer", "sharding", "state_dtype"}),
            "tp=8 pp=1 global_batch=16 sequence_parallel=true recompute.kind=full "
            "offload.optimizer=true sharding=zero1 state_dtype= ");
}

TEST(OtherPrograms, Torchtune) {
  const RunRecord record = program_file("torchtune-llama3-70b.yaml");
  EXPECT_EQ(record.model.name, "llama-3.1-70b");  // Llama 3.3 has its shape
  EXPECT_EQ(record.training.framework, "torchtune");
  EXPECT_EQ(all_said(record, {"seq_len", "tp", "micro_batch", "sharding", "precision",
                              "recompute.kind", "fused_loss", "gradient_clip"}),
            "seq_len=1024 tp=8 micro_batch=4 sharding=zero3 precision=bf16 recompute.kind=full "
            "fused_loss=logits gradient_clip=false ");
}

TEST(OtherPrograms, TorchtunesQloraIsABuilder) {
  const RunRecord record = record_in(
      "model:\n  _component_: torchtune.models.llama3_1.qlora_llama3_1_8b\n"
      "  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']\n  apply_lora_to_mlp: True\n"
      "  lora_rank: 8\nbatch_size: 2\ncompile: False\ndtype: bf16\n");
  EXPECT_EQ(record.model.name, "llama-3.1-8b");
  EXPECT_EQ(record.model.lora_targets, (Layers{"q", "v", "o", "mlp"}));
  EXPECT_EQ(all_said(record, {"precision", "compile"}), "precision=nf4 compile=false ");
}

TEST(OtherPrograms, Nanotron) {
  const ReadLaunch read = read_launch(files_folder() + "nanotron-tiny-llama.yaml");
  EXPECT_TRUE(read.states_ranks);
  EXPECT_EQ(all_said(read.record, {"dp", "tp", "pp", "sharding", "sequence_parallel", "num_layers",
                                   "hidden_size", "vocab_size", "tied_embeddings"}),
            "dp=4 tp=2 pp=1 sharding=none sequence_parallel=true num_layers=28 "
            "hidden_size=2048 vocab_size=128256 tied_embeddings=true ");
}

// 8 * 2048 is the width of gate and values together.  Without a wrapping FSDP has one unit.
TEST(OtherPrograms, Olmo) {
  const RunRecord record = program_file("olmo2-1b.yaml");
  EXPECT_EQ(record.training.framework, "olmo");
  EXPECT_EQ(all_said(record, {"num_layers", "ffn_size", "gated_mlp", "vocab_size", "qk_norm",
                              "norm", "rope.base", "tied_embeddings", "bias.qkv"}),
            "num_layers=16 ffn_size=8192 gated_mlp=true vocab_size=100352 qk_norm=all-heads "
            "norm=rmsnorm rope.base=500000 tied_embeddings=false bias.qkv=false ");
  EXPECT_EQ(all_said(record, {"global_batch", "micro_batch", "sharding", "fsdp_unit_blocks",
                              "gradient_reduce_dtype", "fused_loss", "recompute.kind", "compile"}),
            "global_batch=512 micro_batch=4 sharding=zero2 fsdp_unit_blocks=0 "
            "gradient_reduce_dtype=fp32 fused_loss=kernel recompute.kind=none compile=false ");
  const RunRecord half = record_in(
      "model:\n  d_model: 64\n  embedding_size: 128\n  mlp_hidden_size: 22016\n"
      "device_train_microbatch_size: 1\n");
  EXPECT_EQ(said(half, "ffn_size"), "11008");
}

TEST(OtherPrograms, LlmFoundrysReferences) {
  const RunRecord record = program_file("llm-foundry-mpt-7b.yaml");
  EXPECT_EQ(record.training.framework, "llm-foundry");
  EXPECT_EQ(all_said(record, {"seq_len", "num_layers", "hidden_size", "ffn_size", "gated_mlp",
                              "position", "tied_embeddings", "bias.mlp"}),
            "seq_len=2048 num_layers=32 hidden_size=4096 ffn_size=16384 gated_mlp=false "
            "position=learned tied_embeddings=true bias.mlp=true ");
  EXPECT_EQ(all_said(record, {"global_batch", "micro_batch", "sharding", "recompute.kind",
                              "gradient_reduce_dtype", "precision"}),
            "global_batch=1024 micro_batch=8 sharding=zero3 recompute.kind=full "
            "gradient_reduce_dtype=bf16 precision=bf16 ");
}

TEST(OtherPrograms, LitGptOnOneDevice) {
  const RunRecord record = program_file("litgpt-llama2-7b-lora.yaml");
  EXPECT_EQ(record.model.name, "llama-2-7b");
  EXPECT_EQ(record.hardware.num_devices, 1);
  EXPECT_EQ(record.model.lora_targets, (Layers{"q", "v"}));
  EXPECT_EQ(all_said(record, {"seq_len", "global_batch", "micro_batch", "sharding",
                              "recompute.kind", "weight_dtype"}),
            "seq_len=512 global_batch=8 micro_batch=2 sharding=none recompute.kind=none "
            "weight_dtype=bf16 ");
}

TEST(OtherPrograms, Levanter) {
  const RunRecord record = program_file("levanter-llama-3b.yaml");
  EXPECT_EQ(record.training.framework, "levanter");
  EXPECT_EQ(
      all_said(record, {"num_layers", "hidden_size", "ffn_size", "norm", "vocab_size",
                        "global_batch", "micro_batch", "sharding", "precision", "recompute.kind"}),
      "num_layers=26 hidden_size=4096 ffn_size=8640 norm=rmsnorm vocab_size= "
      "global_batch=1024 micro_batch=8 sharding=zero3 precision=bf16 recompute.kind=full ");
}

TEST(OtherPrograms, NemoAutomodel) {
  const RunRecord record = program_file("automodel-llama3-8b-fp8.yaml");
  EXPECT_EQ(record.model.name, "llama-3.1-8b");
  EXPECT_EQ(record.training.framework, "fsdp2");
  EXPECT_EQ(all_said(record, {"tp", "cp", "precision", "fp8_recipe", "fp8_all_gather", "sharding",
                              "optimizer", "compile"}),
            "tp=1 cp=1 precision=fp8 fp8_recipe=current fp8_all_gather=true sharding=zero3 "
            "optimizer=adam compile=true ");
}

TEST(OtherPrograms, Verl) {
  const RunRecord record = program_file("verl-qwen2.5-lora.sh");
  EXPECT_EQ(record.model.name, "qwen2.5-0.5b");
  EXPECT_EQ(record.model.lora_rank, 32);
  EXPECT_EQ(record.training.framework, "fsdp2");
  EXPECT_EQ(
      all_said(record, {"seq_len", "global_batch", "micro_batch", "sharding", "recompute.kind"}),
      "seq_len=1024 global_batch=256 micro_batch=4 sharding=zero3 recompute.kind=full ");
}

// The target of a file by its name: "swift-megatron" is no "swift".
std::string target_named(const std::string& file) {
  static const std::vector<std::pair<std::string, std::string>> kBeginnings{
      {"gpt3", "megatron"},    {"llama3-8b-fp8", "megatron"}, {"deepseek-v3-fsdp", "megatron"},
      {"mixtral", "megatron"}, {"llama3", "torchtitan"},      {"deepseek", "torchtitan"},
      {"olmo2", "olmo"}};
  std::string best;
  for (const std::string& target : read_targets())
    if (file.starts_with(target + "-") && target.size() > best.size()) best = target;
  for (const auto& [beginning, target] : kBeginnings)
    if (best.empty() && file.starts_with(beginning)) best = target;
  return best;
}

std::string without_line(const std::string& text, std::size_t begin) {
  const std::size_t end = text.find('\n', begin);
  return text.substr(0, begin) + (end == std::string::npos ? "" : text.substr(end + 1));
}

// A file is of its own program; without any one of its lines it is so too, or of none.
TEST(OtherPrograms, AFileIsOfNoOtherProgram) {
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(files_folder())) {
    const std::string name = entry.path().filename();
    if (name == "README.md") continue;
    const std::string target = target_named(name), text = content_of_file(entry.path());
    EXPECT_EQ(target_of_launch(text, name), target) << name;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      std::string found = target;
      error_of([&] { found = target_of_launch(without_line(text, at), name); });
      EXPECT_EQ(found, target) << name << " without the line at " << at;
      ++checked;
      if (text.find('\n', at) == std::string::npos) break;
    }
  }
  EXPECT_GT(checked, 500);
}

TEST(OtherPrograms, AreReadAndNotWritten) {
  EXPECT_EQ(error_of([] { framework_of_target("axolotl"); }).substr(0, 60),
            "target axolotl: its files are read and not written; one of m");
  EXPECT_FALSE(target_of_framework("torchtune"));
}

}  // namespace
}  // namespace llmsim::hwdb
