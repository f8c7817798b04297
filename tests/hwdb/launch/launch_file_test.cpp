#include "hwdb/launch/launch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "hwdb/launch/launch_fields.h"
#include "hwdb/launch/row_text.h"
#include "hwdb/store/database.h"
#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/error_of.h"
#include "tests/hwdb/launch/shipped_resolver.h"
#include "tests/share.h"

namespace llmsim::hwdb {
namespace {

// The run of the file that a target writes of a run, on the same hardware.
sim::Run read_again(const sim::Run& run, const std::string& target) {
  const LaunchFile file = launch_files(run, target, resolver()).back();
  RunRecord record = parse_launch(file.text, file.name).record;
  if (!record.model.fields.contains("num_layers") && !record.model.name)
    record.model = recorded(run.model);
  for (const char* key : {"micro_batch", "global_batch", "optimizer"}) {
    if (const auto value = sim::find_strategy_field(key)->get(run.strategy))
      record.training.strategy.emplace(key, *value);  // of the program that is configured
  }
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = run.cluster.num_devices;
  return resolver().resolve(record);
}

// Every combination of one value of each list.
std::vector<Changes> combinations(
    const std::map<std::string, std::vector<sim::FieldValue>>& lists) {
  std::vector<Changes> all{{}};
  for (const auto& [key, values] : lists) {
    std::vector<Changes> longer;
    for (const Changes& changes : all) {
      for (const sim::FieldValue& value : values) {
        longer.push_back(changes);
        longer.back()[key] = value;
      }
    }
    all = longer;
  }
  return all;
}

std::string text_of_changes(const Changes& changes) {
  std::string text;
  for (const auto& [key, value] : changes) text += key + "=" + sim::text_of(value) + " ";
  return text;
}

// Whether the program would start with a run (rows "never").
bool would_start(const sim::Run& run, const std::string& target) {
  const LaunchValues fields = fields_of(run);
  const auto& rules = shipped_table(target).never;
  return std::none_of(rules.begin(), rules.end(),
                      [&](const StartRule& rule) { return all_hold(rule.broken_by, fields); });
}

constexpr std::size_t kFewCombinations = 8;

// What can be carried out is written and read as the same run; returns how many runs were.  Under
// sanitizers each eighth combination of many is tried, and counts for all.
int check_round_trips(const std::string& model, int devices, const std::string& target,
                      const std::map<std::string, std::vector<sim::FieldValue>>& lists,
                      const std::optional<std::string>& of = std::nullopt) {
  const std::string framework = of.value_or(framework_of_target(target).value());
  int checked = 0;
  unsigned tried = 0;
  const std::vector<Changes> all = combinations(lists);
  const bool whole = all.size() <= kFewCombinations;
  for (const Changes& changes : all) {
    if (tried++ % kPartsOfATest != 0 && !whole) {
      ++checked;
      continue;
    }
    sim::Run run;
    if (!error_of([&] { run = run_on(model, devices, framework, changes); }).empty()) continue;
    sim::Prediction asked;
    if (!error_of([&] { asked = sim::predict(run); }).empty()) continue;  // no such arithmetic
    if (asked.step_time <= sim::Seconds(0.0)) continue;                   // it breaks a rule
    if (!would_start(run, target)) continue;
    SCOPED_TRACE(target + ": " + model + " " + text_of_changes(changes));
    sim::Run again;
    EXPECT_EQ(error_of([&] { again = read_again(run, target); }), "");
    if (again.model.num_layers == 0) continue;
    EXPECT_EQ(first_difference(run, again).value_or(""), "");
    const sim::Prediction read = sim::predict(again);
    EXPECT_EQ(read.step_time.value(), asked.step_time.value());
    EXPECT_EQ(read.memory.peak.value(), asked.memory.peak.value());
    ++checked;
  }
  return checked;
}

TEST(LaunchFile, MegatronReadsWhatItWroteOfDenseRuns) {
  EXPECT_GT(check_round_trips("llama-3-70b", 64, "megatron",
                              {{"tp", {1, 8}},
                               {"pp", {1, 2, 4}},
                               {"cp", {1, 2}},
                               {"virtual_stages", {1, 2}},
                               {"sharding", {"none", "zero1"}},
                               {"recompute.kind", {"none", "selective", "full"}},
                               {"precision", {"bf16", "fp8"}},
                               {"gather_overlap", {true, false}}}),
            200);
}

TEST(LaunchFile, MegatronReadsWhatItWroteOfExperts) {
  EXPECT_GT(check_round_trips("mixtral-8x7b", 64, "megatron",
                              {{"tp", {1, 2}},
                               {"pp", {1, 4}},
                               {"ep", {1, 8}},
                               {"etp", {1, 2}},
                               {"moe_dispatch", {"alltoall", "allgather", "deepep"}},
                               {"grouped_gemm", {true, false}}}),
            30);
  EXPECT_GT(check_round_trips("deepseek-v3", 256, "megatron",
                              {{"pp", {1, 8, 16}},
                               {"ep", {8, 16}},
                               {"grouped_gemm", {true}},
                               {"precision", {"bf16", "fp8"}}}),
            5);
}

TEST(LaunchFile, MegatronReadsWhatItWroteOfHybrids) {
  for (const char* model : {"nemotron-h-8b", "nemotron-3-nano-30b-a3b", "nemotron-3-super-120b"})
    EXPECT_GT(check_round_trips(model, 16, "megatron",
                                {{"tp", {1, 8}},
                                 {"pp", {1, 2}},
                                 {"grouped_gemm", {true}},
                                 {"precision", {"bf16", "fp8"}}}),
              1)
        << model;
}

// Megatron-LM trains hybrids by another program, a letter for each layer.
TEST(LaunchFile, MegatronWritesThePatternOfAHybrid) {
  const auto text_of = [](const sim::Run& run) {
    return launch_files(run, "megatron", resolver()).back().text;
  };
  sim::Run run = run_on("nemotron-3-super-120b", 16, "megatron-lm", {{"grouped_gemm", true}});
  const std::string text = text_of(run);
  for (const char* part :
       {"--is-hybrid-model\n", "--hybrid-override-pattern 'MEMEMEM*EMEMEMEM*", "--squared-relu\n",
        "--mamba-num-heads 128\n", "--mamba-state-dim 128\n", "--moe-latent-size 1024\n",
        "--ffn-hidden-size 2688\n", "--mtp-hybrid-override-pattern '*E'\n",
        "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec\n",
        " pretrain_mamba.py "})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  // Convolutions have four taps there.
  run.model.mamba->conv_kernel = 3;
  EXPECT_EQ(error_of([&] { text_of(run); }), "megatron cannot express model.mamba.conv_kernel = 3");
}

TEST(LaunchFile, MegatronsHybridsOfOtherReleasesAreRead) {
  const std::string shape =
      "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --ffn-hidden-size 4096 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 ";
  const RunRecord newer =
      parse_launch(shape + "--hybrid-layer-pattern 'M-M*' --mamba-head-dim 32", "a.sh").record;
  EXPECT_EQ(sim::stated<std::string>(newer.model.fields, "layer_pattern"), "M-M*");
  EXPECT_EQ(sim::stated<int>(newer.model.fields, "mamba.num_heads"), 64);  // 2 * 1024 / 32
  EXPECT_EQ(sim::stated<int>(newer.model.fields, "mamba.state_size"), 128);
  EXPECT_EQ(sim::stated<int>(newer.model.fields, "ffn_size"), 4096);
  // Without a letter for MLPs there are none.
  const RunRecord bare = parse_launch(shape + "--hybrid-override-pattern MMM*", "a.sh").record;
  EXPECT_EQ(sim::stated<int>(bare.model.fields, "ffn_size"), 0);
  EXPECT_EQ(error_of([&] {
              parse_launch(shape + "--is-hybrid-model --hybrid-attention-ratio 0.08", "a.sh");
            }),
            "a.sh: --hybrid-attention-ratio = 0.08: matters and is not modelled");
}

TEST(LaunchFile, MegatronHasNoOtherMixers) {
  const std::string error = error_of([&] {
    launch_files(run_on("jamba-mini", 16, "megatron-lm", {{"grouped_gemm", true}}), "megatron",
                 resolver());
  });
  EXPECT_EQ(error.substr(0, 45), "megatron cannot express model.layer_pattern =");
}

// What is written is read again there, and must be the same run.
TEST(LaunchFile, MegatronHasLinearAttention) {
  const std::string text =
      launch_files(run_on("qwen3-next", 16, "megatron-lm", {{"grouped_gemm", true}}), "megatron",
                   resolver())
          .back()
          .text;
  for (const char* argument : {"--experimental-attention-variant gated_delta_net",
                               "--linear-attention-freq 4", "--attention-output-gate"})
    EXPECT_NE(text.find(argument), std::string::npos) << argument;
}

TEST(LaunchFile, MegatronReadsSettingsAndSwitches) {
  const std::map<std::string, std::vector<sim::FieldValue>> lists = {
      {"dropout", {0.0, 0.1}},
      {"deterministic", {true}},
      {"tp_overlap", {true, false}},
      {"cuda_graph", {true, false}},
      {"fused_cross_entropy", {true, false}},
      {"flash_attention", {true, false}},
      {"gradient_clip", {true, false}},
      {"state_dtype", {"bf16", "fp32"}},
      {"optimizer", {"adam", "adamw", "muon"}}};
  for (const auto& [key, values] : lists)
    EXPECT_GE(check_round_trips("gpt3-13b", 16, "megatron", {{"tp", {4}}, {key, values}}), 1)
        << key;
  for (const char* target : {"megatron", "nemo"})
    EXPECT_EQ(check_round_trips("gpt3-13b", 16, target,
                                {{"tp", {4}},
                                 {"optimizer", {"muon"}},
                                 {"muon_use_syrk", {true}},
                                 {"muon_tp_mode", {"blockwise", "duplicated", "distributed"}}}),
              3)
        << target;
  EXPECT_EQ(check_round_trips("gpt3-13b", 16, "megatron",
                              {{"tp", {4}}, {"optimizer", {"muon"}}, {"whole_tables", {true}}}),
            1);
  for (const char* target : {"megatron", "nemo"})
    EXPECT_EQ(check_round_trips(
                  "gpt3-13b", 16, target,
                  {{"tp", {2}}, {"pp", {4}}, {"mesh_order", {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}}}),
              2)
        << target;
}

TEST(LaunchFile, TorchtitanReadsWhatItWrote) {
  EXPECT_GT(check_round_trips("llama-3-70b", 64, "torchtitan",
                              {{"tp", {1, 8}},
                               {"pp", {1, 2, 4}},
                               {"cp", {1, 2}},
                               {"virtual_stages", {1, 2}},
                               {"sharding", {"zero3"}},
                               {"recompute.kind", {"none", "full", "op", "every_n"}},
                               {"precision", {"bf16", "fp8"}},
                               {"compile", {true, false}}}),
            100);
  EXPECT_GT(check_round_trips("llama-3-70b", 64, "torchtitan",
                              {{"pp", {2}},
                               {"embeddings_as_layers", {true, false}},
                               {"pipeline_schedule", {"1f1b", "gpipe"}}}),
            3);
  EXPECT_GT(check_round_trips("llama-3-8b", 16, "torchtitan",
                              {{"sharding", {"zero3"}},
                               {"cp", {1, 2}},
                               {"fp8_all_gather", {true}},
                               {"precision", {"fp8"}},
                               {"fp8_recipe", {"current", "rowwise"}}}),
            3);
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "torchtitan",
                              {{"sharding", {"zero3"}},
                               {"compile", {true}},
                               {"recompute.kind", {"selective"}},
                               {"recompute.modules", {"layernorm+activation"}}}),
            1);
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "torchtitan",
                              {{"sharding", {"hsdp"}}, {"shard_size", {4}}, {"tp", {1, 2}}}),
            2);
  // Plain data parallelism goes with no other ranks.
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "torchtitan",
                              {{"sharding", {"none"}}, {"tp", {1, 2, 16}}}),
            2);
}

// Half is its default, at which the compiler makes GEMMs again too.
TEST(LaunchFile, TorchtitansMemoryBudgetIsWhatTheCompilerMakesOfIt) {
  const auto read = [](const std::string& budget) {
    return parse_launch("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[compile]\nenable = true\n" +
                            ("[activation_checkpoint]\nmode = \"memory_budget\"\n" + budget),
                        "a.toml");
  };
  const auto& strategy = read("memory_budget = 0.9\n").record.training.strategy;
  EXPECT_EQ(sim::text_of(strategy.at("recompute.kind")), "selective");
  EXPECT_EQ(sim::text_of(strategy.at("recompute.modules")), "layernorm+activation");
  EXPECT_EQ(error_of([&] { read(""); }),
            "a.toml: activation_checkpoint.mode = memory_budget: no such combination of torchtitan "
            "is modelled");
}

TEST(LaunchFile, DeepSpeedReadsWhatItWrote) {
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "deepspeed",
                              {{"tp", {1, 2}},
                               {"sharding", {"none", "zero1", "zero2", "zero3"}},
                               {"gradient_clip", {true, false}},
                               {"offload.optimizer", {true, false}},
                               {"precision", {"bf16", "fp16"}}}),
            64);
  EXPECT_GE(check_round_trips("llama-3-8b", 16, "deepspeed",
                              {{"sharding", {"hsdp"}}, {"shard_size", {4, 8}}}),
            2);
  EXPECT_GE(check_round_trips("llama-3-8b", 16, "deepspeed",
                              {{"sharding", {"zero3"}},
                               {"max_live_parameters", {3e7, 1e9}},
                               {"reduce_bucket_size", {2e8}}}),
            2);
}

TEST(LaunchFile, AccelerateReadsWhatItWrote) {
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "accelerate",
                              {{"sharding", {"none", "zero2", "zero3"}},
                               {"recompute.kind", {"none", "full"}},
                               {"precision", {"bf16", "fp16"}}}),
            12);
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "accelerate",
                              {{"tp", {1, 2}},
                               {"sharding", {"zero3"}},
                               {"recompute.kind", {"none", "full"}},
                               {"precision", {"bf16", "fp16"}}},
                              "fsdp2"),
            8);
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "accelerate", {{"sharding", {"none"}}}, "fsdp2"),
            1);
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "accelerate",
                              {{"sharding", {"hsdp"}}, {"shard_size", {4, 8}}}, "fsdp2"),
            2);
  // The first version has shards of a node.
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "accelerate",
                              {{"sharding", {"hsdp"}}, {"shard_size", {8}}}),
            1);
  EXPECT_NE(error_of([&] {
              read_again(run_on("llama-3-8b", 16, "hf-trainer-fsdp",
                                {{"sharding", "hsdp"}, {"shard_size", 4}}),
                         "accelerate");
            }),
            "");
}

TEST(LaunchFile, NemoReadsWhatItWroteOfDenseRuns) {
  EXPECT_GT(check_round_trips("llama-3-70b", 64, "nemo",
                              {{"tp", {1, 8}},
                               {"pp", {1, 4}},
                               {"cp", {1, 2}},
                               {"virtual_stages", {1, 2}},
                               {"sharding", {"none", "zero1"}},
                               {"recompute.kind", {"none", "selective", "full"}},
                               {"precision", {"bf16", "fp8"}},
                               {"tp_overlap", {true, false}}}),
            100);
  const std::map<std::string, std::vector<sim::FieldValue>> lists = {
      {"sharding", {"zero2", "zero3"}},
      {"dropout", {0.0, 0.1}},
      {"cuda_graph", {true, false}},
      {"fused_cross_entropy", {true, false}},
      {"flash_attention", {true, false}},
      {"gradient_clip", {true, false}},
      {"state_dtype", {"bf16", "fp32"}},
      {"gradient_accumulation_fusion", {true, false}},
      {"precision", {"fp16", "nvfp4", "mxfp8"}},
      {"offload.optimizer", {true}},
      {"optimizer", {"adam", "adamw", "muon"}}};
  for (const auto& [key, values] : lists)
    EXPECT_GE(check_round_trips("gpt3-13b", 16, "nemo", {{"tp", {4}}, {key, values}}), 1) << key;
  EXPECT_EQ(
      check_round_trips("gpt3-13b", 16, "nemo",
                        {{"tp", {4}}, {"deterministic", {true}}, {"tp_overlap", {true, false}}}),
      1);
  EXPECT_EQ(check_round_trips("gpt3-13b", 16, "nemo",
                              {{"tp", {4}},
                               {"precision", {"fp8"}},
                               {"fp8_all_gather", {true}},
                               {"fp8_recipe", {"delayed", "current", "blockwise"}}}),
            3);
}

TEST(LaunchFile, NemoReadsWhatItWroteOfExperts) {
  EXPECT_GT(check_round_trips("mixtral-8x7b", 64, "nemo",
                              {{"tp", {1, 2}},
                               {"pp", {1, 4}},
                               {"ep", {1, 8}},
                               {"etp", {1, 2}},
                               {"moe_dispatch", {"alltoall", "allgather", "deepep"}},
                               {"moe_overlap", {true, false}}}),
            30);
  EXPECT_GT(check_round_trips("deepseek-v3", 256, "nemo", {{"pp", {1, 8, 16}}, {"ep", {8, 16}}}),
            3);
}

TEST(LaunchFile, MaxTextReadsWhatItWrote) {
  EXPECT_GT(check_round_trips("llama-3-70b", 64, "maxtext",
                              {{"tp", {1, 4}},
                               {"cp", {1, 2}},
                               {"sharding", {"zero3", "none"}},
                               {"micro_batch", {1, 2}},
                               {"recompute.kind", {"full"}},
                               {"precision", {"bf16", "fp8"}},
                               {"offload.optimizer", {true, false}}}),
            30);
  for (const char* saved : {"all", "qkv"}) {
    EXPECT_EQ(check_round_trips("llama-3-8b", 16, "maxtext",
                                {{"recompute.kind", {"op"}},
                                 {"recompute.saved", {saved}},
                                 {"offload.activations", {true, false}}}),
              2);
  }
  for (const char* saved : {"qkv+core_attn+attn_proj+mlp_up+mlp_down", "qkv+core_attn+attn_proj",
                            "qkv+attn_proj", "qkv+attn_proj+mlp_down", "attn_proj"}) {
    EXPECT_EQ(check_round_trips("llama-3-8b", 16, "maxtext",
                                {{"recompute.kind", {"op"}}, {"recompute.saved", {saved}}}),
              1);
  }
  EXPECT_GE(check_round_trips("llama-3-8b", 16, "maxtext",
                              {{"sharding", {"hsdp"}}, {"shard_size", {2, 4}}, {"tp", {1, 2}}}),
            4);
  EXPECT_GE(check_round_trips("mixtral-8x7b", 64, "maxtext", {{"ep", {1, 8}}}), 2);
  EXPECT_GE(check_round_trips("llama-3-8b", 16, "maxtext",
                              {{"weight_dtype", {"bf16", "fp32"}}, {"gradient_clip", {false}}}),
            2);
}

// 4 sequences a device on two tensor ranks are 8 of a replica.
TEST(LaunchFile, MaxTextCountsSequencesOfADevice) {
  const RunRecord record = parse_launch(
                               "model_name: llama3-8b\nper_device_batch_size: 4.0\n"
                               "ici_tensor_parallelism: 2\ndcn_data_parallelism: 2\n"
                               "ici_fsdp_parallelism: 8\n",
                               "a.yml")
                               .record;
  EXPECT_EQ(sim::text_of(record.training.strategy.at("micro_batch")), "8");
  EXPECT_EQ(sim::text_of(record.training.strategy.at("dp")), "16");
  EXPECT_EQ(sim::text_of(record.training.strategy.at("sharding")), "hsdp");
  EXPECT_EQ(record.training.replicate_size, 2);
  EXPECT_EQ(error_of([] {
              parse_launch("model_name: llama3-8b\nper_device_batch_size: 0.5\n", "a.yml");
            }).substr(0, 47),
            "a.yml: a batch of 0.5 sequences a device: whole");
}

// 64 GPUs in nodes of 8, two tensor ranks: four shards inside of each of 8 nodes; TPUs are a slice.
TEST(LaunchFile, MaxTextMeshesHaveNodesAndSlices) {
  RunRecord record =
      record_on("llama-3-8b", 64, "maxtext", {{"tp", 2}, {"recompute.kind", "full"}});
  const auto text = [&] {
    return launch_files(resolver().resolve(record), "maxtext", resolver()).back().text;
  };
  EXPECT_NE(text().find("ici_fsdp_parallelism: 4\ndcn_fsdp_parallelism: 8\n"), std::string::npos)
      << text();
  record.training.strategy["cp"] = 8;
  EXPECT_EQ(error_of(text), "maxtext cannot express sharding = zero3, tp = 2, cp = 8");
  record.training.strategy.erase("cp");
  record.hardware.accelerator = "tpu_v5p";
  EXPECT_NE(text().find("ici_fsdp_parallelism: 32\ndcn_fsdp_parallelism: 1\n"), std::string::npos)
      << text();
}

TEST(LaunchFile, MaxTextHasShapesWithoutAName) {
  RunRecord record = record_on("mine", 16, "maxtext", {});
  record.model.fields = {{"num_layers", 12},        {"hidden_size", 2048}, {"num_heads", 16},
                         {"num_kv_heads", 4},       {"head_dim", 128},     {"ffn_size", 6144},
                         {"vocab_size", 50304},     {"seq_len", 1024},     {"gated_mlp", true},
                         {"tied_embeddings", false}};
  record.model.fields["norm"] = "rmsnorm";
  const sim::Run run = resolver().resolve(record);
  EXPECT_EQ(first_difference(run, read_again(run, "maxtext")).value_or(""), "");
}

TEST(LaunchFile, AKeyThatMattersAndIsNotModelledIsAnError) {
  EXPECT_EQ(error_of([] { parse_launch("--num-layers 2 --softmax-type off-by-one", "a.sh"); }),
            "a.sh: --softmax-type = off-by-one: matters and is not modelled");
  EXPECT_EQ(error_of([] {
              parse_launch(
                  "[model]\nflavor = \"8B\"\n[parallelism]\n"
                  "enable_compiled_autograd = true\n",
                  "a.toml");
            }),
            "a.toml: parallelism.enable_compiled_autograd = true: matters and is not modelled");
}

TEST(LaunchFile, AnUnknownKeyIsNamedWithTheNearest) {
  EXPECT_EQ(
      error_of([] { parse_launch("--num-layers 2 --hiden-size 8", "a.sh"); }),
      "a.sh: --hiden-size: not known of megatron (--ignore hiden-size passes over it); did you "
      "mean --hidden-size?");
}

TEST(LaunchFile, ValuesThatNoCaseHasAreNamed) {
  EXPECT_EQ(error_of([] { parse_launch("--num-layers 2 --recompute-granularity some", "a.sh"); }),
            "a.sh: --recompute-granularity = some: no such combination of megatron is modelled");
  EXPECT_EQ(error_of([] { parse_launch("--num-layers two", "a.sh"); }),
            "a.sh: model.num_layers = two: a whole number from 1 on is expected");
}

// Sizes are divided by degrees: a zero is refused by the key that says it.
// Names come from anyone: in no file do they become a line of their own.
TEST(LaunchFile, NoNameBecomesACommand) {
  const std::map<std::string, std::string> of_target{
      {"megatron", "megatron-lm"}, {"torchtitan", "torchtitan"}, {"maxtext", "maxtext"},
      {"nemo", "megatron-bridge"}, {"accelerate", "fsdp2"},      {"slurm", "megatron-lm"},
      {"torchrun", "megatron-lm"}};
  for (const auto& [target, framework] : of_target) {
    const auto files_of = [&, &target = target, &framework = framework](const std::string& name) {
      sim::Run run = resolver().resolve(record_on("llama-3-8b", 8, framework, {}));
      run.model.name = name;
      std::string all;
      for (const LaunchFile& file : launch_files(run, target, resolver())) all += file.text;
      return all;
    };
    const std::string plain = files_of("plain");
    for (const char* name : {"a\ntouch x", "a\rb", "\x1b[31m", "\xe2\x80\xa8touch x", "$(touch x)",
                             "`touch x`", "'; touch x #", "\"\"\""}) {
      const std::string text = files_of(name);
      EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
                std::count(plain.begin(), plain.end(), '\n'))
          << target << " " << name;
      EXPECT_EQ(text.find('\r'), std::string::npos);
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);)
        EXPECT_TRUE(line.find("touch") == std::string::npos || line.starts_with('#'))
            << target << ": " << line;
    }
  }
}

TEST(LaunchFile, ADegreeOfZeroIsRefusedByItsKey) {
  const auto why = [](const char* text, const char* file) {
    return error_of([&] { parse_launch(text, file); });
  };
  EXPECT_EQ(why("[model]\nflavor = \"8B\"\nname = \"llama3\"\n[parallelism]\n"
                "data_parallel_shard_degree = 8\npipeline_parallel_degree = 0\n",
                "a.toml"),
            "a.toml: parallelism.pipeline_parallel_degree = 0: pp = 0: an integer from 1 to "
            "1048576 is expected");
  EXPECT_NE(why("--num-layers 2 --tensor-model-parallel-size 0", "a.sh").find("size = 0"),
            std::string::npos);
  EXPECT_NE(why("remat_policy: full\nici_fsdp_parallelism: 8\ndcn_data_parallelism: 0\n", "a.yml"),
            "");
  EXPECT_NE(why("--num-layers 99999999999 --hidden-size 4294967296 --nnodes 70000 "
                "--nproc_per_node 70000",
                "a.sh"),
            "");
}

// Its keys are those of a GPT.
TEST(LaunchFile, AProgramThatTrainsNoCausalDecoderIsRefused) {
  const auto refusal = [](const std::string& program) {
    return error_of([&] { parse_launch("python " + program + " --num-layers 2", "a.sh"); });
  };
  EXPECT_EQ(refusal("/opt/megatron/pretrain_bert.py"),
            "a.sh: pretrain_bert.py trains BERT, an encoder: only causal decoders are read of "
            "megatron");
  EXPECT_EQ(refusal("pretrain_t5_core.py").substr(0, 60),
            "a.sh: pretrain_t5_core.py trains T5, an encoder and a decode");
  EXPECT_NE(refusal("pretrain_vision_dino.py"), "");
  // Words of folders, and parts of words, say nothing.
  for (const char* program : {"bert/pretrain_gpt.py", "pretrain_albertina.py", "pretrain_llama.py"})
    EXPECT_EQ(parse_launch(std::string("python ") + program + " --num-layers 2", "a.sh").target,
              "megatron");
}

// The program's own layers multiply scores and values without a fused kernel, whatever is said of
// TransformerEngine's attention.
TEST(LaunchFile, MegatronsOwnLayersHaveUnfusedAttention) {
  const auto flash = [](const std::string& keys) {
    const RunRecord record = parse_launch("--num-layers 2 " + keys, "a.sh").record;
    return sim::stated<bool>(record.training.strategy, "flash_attention");
  };
  EXPECT_EQ(flash("--transformer-impl local"), false);
  EXPECT_EQ(flash("--transformer-impl local --attention-backend flash"), false);
  EXPECT_EQ(flash("--transformer-impl local --use-flash-attn"), true);
  EXPECT_EQ(flash(""), std::nullopt);
  EXPECT_EQ(flash("--attention-backend flash"), true);
  EXPECT_EQ(flash("--attention-backend unfused"), false);
}

std::string recomputation_of(const std::string& keys) {
  const RunRecord record = parse_launch("--num-layers 2 " + keys, "a.sh").record;
  std::string text;
  for (const auto& [key, value] : record.training.strategy)
    if (key.starts_with("recompute.")) text += key.substr(10) + "=" + sim::text_of(value) + " ";
  return text;
}

TEST(LaunchFile, MegatronsRecomputationUnderItsOldNames) {
  EXPECT_EQ(recomputation_of("--checkpoint-activations"), "kind=full ");
  EXPECT_EQ(recomputation_of("--checkpoint-activations --checkpoint-num-layers 2"),
            "every_n=2 kind=full ");
  EXPECT_EQ(recomputation_of("--activations-checkpoint-method block "
                             "--activations-checkpoint-num-layers 3"),
            "blocks=3 kind=full ");
  EXPECT_EQ(recomputation_of("--recompute-granularity selective --recompute-activations"),
            "kind=selective modules=core_attn ");
}

TEST(LaunchFile, AcceleratesDeepSpeedAndNumbersOfStrategies) {
  const auto strategy = [](const std::string& text) {
    return parse_launch("num_processes: 8\nmixed_precision: bf16\n" + text, "a.yaml").record;
  };
  const RunRecord inline_zero = strategy(
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"
      "  offload_optimizer_device: cpu\n  offload_param_device: none\n"
      "  gradient_accumulation_steps: 4\n  zero3_init_flag: false\n");
  EXPECT_EQ(inline_zero.training.framework, "hf-trainer-deepspeed");
  EXPECT_EQ(sim::text_of(inline_zero.training.strategy.at("sharding")), "zero2");
  EXPECT_EQ(sim::stated<bool>(inline_zero.training.strategy, "offload.optimizer"), true);
  EXPECT_EQ(inline_zero.training.num_microbatches, 4);
  const std::string fsdp = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: ";
  const auto sharding = [&](const std::string& text) {
    return sim::text_of(strategy(text).training.strategy.at("sharding"));
  };
  EXPECT_EQ(sharding(fsdp + "1\n"), "zero3");
  EXPECT_EQ(sharding(fsdp + "2\n"), "zero2");
  EXPECT_EQ(sharding("distributed_type: FSDP\nfsdp_config:\n"
                     "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"),
            "zero2");
}

TEST(LaunchFile, DeepSpeedsOldNameOfStatesOnTheHost) {
  const RunRecord record = parse_launch(R"({"zero_optimization": {"stage": 2, "cpu_offload": true},
                       "train_micro_batch_size_per_gpu": 1, "_comment": "x"})",
                                        "ds.json")
                               .record;
  EXPECT_EQ(sim::stated<bool>(record.training.strategy, "offload.optimizer"), true);
}

// What a run is predicted with is what the file asks for: TransformerEngine would choose by itself.
TEST(LaunchFile, NamesTheAttentionThatIsPredicted) {
  const sim::Run run = run_on("llama-3-8b", 8, "megatron-lm", {{"tp", 8}});
  ASSERT_STREQ(name_of(run.framework.attention_kernel), "cudnn");
  EXPECT_NE(launch_files(run, "megatron", resolver()).back().text.find("--attention-backend fused"),
            std::string::npos);
}

// Four times the hidden size, of gated MLPs 8 / 3 in whole 64s: 8 * 1000 / 3 = 2666 = 41 * 64 + 42.
TEST(LaunchFile, MegatronsWidthsThatAreNotStated) {
  const auto widths = [](const std::string& keys) {
    const sim::PartialTransformer fields =
        parse_launch("--num-layers 4 --hidden-size 1000 " + keys, "a.sh").record.model.fields;
    return std::pair{sim::stated<int>(fields, "ffn_size").value_or(0),
                     sim::stated<int>(fields, "moe.expert_ffn_size").value_or(0)};
  };
  EXPECT_EQ(widths(""), std::pair(4000, 0));
  EXPECT_EQ(widths("--swiglu"), std::pair(41 * 64, 0));
  EXPECT_EQ(widths("--quick-geglu"), std::pair(4000, 0));
  EXPECT_EQ(widths("--swiglu --ffn-hidden-size 1024"), std::pair(1024, 0));
  // Experts have that width too, unless they have their own.
  const std::string experts = "--num-experts 8 ", own = "--moe-ffn-hidden-size 512 ",
                    first = "--moe-layer-freq '([0]*1+[1]*3)' ";
  EXPECT_EQ(widths(experts), std::pair(4000, 4000));
  EXPECT_EQ(widths(experts + first), std::pair(4000, 4000));
  EXPECT_EQ(widths(experts + first + own), std::pair(4000, 512));
  EXPECT_EQ(widths(experts + first + "--ffn-hidden-size 1024"), std::pair(1024, 1024));
}

TEST(LaunchFile, WhatCannotMatterIsListed) {
  const ReadLaunch read = parse_launch("--num-layers 2 --lr 1e-4 --save out", "a.sh");
  EXPECT_EQ(read.not_needed, (std::vector<std::string>{"--lr", "--save"}));
  EXPECT_EQ(read.target, "megatron");
}

TEST(LaunchFile, WhatAFileLeavesOpenHasTheDefaultOfItsProgram) {
  const ReadLaunch read = parse_launch("--num-layers 2", "a.sh");
  const auto noted = [&](const std::string& key) {
    const auto found = std::find_if(read.defaults.begin(), read.defaults.end(),
                                    [&](const sim::Fact& fact) { return fact.key == key; });
    return found == read.defaults.end() ? "" : found->value + ", " + found->source;
  };
  EXPECT_EQ(noted("assumed.training.tp"), "1, default of megatron");
  EXPECT_EQ(noted("assumed.training.gradient_overlap"), "false, default of megatron");
  EXPECT_EQ(noted("assumed.training.dropout"), "0.1, default of megatron");
  EXPECT_EQ(noted("assumed.model.ffn_size"), "4h, default of megatron");
  EXPECT_EQ(noted("assumed.model.num_layers"), "");
}

}  // namespace
}  // namespace llmsim::hwdb
