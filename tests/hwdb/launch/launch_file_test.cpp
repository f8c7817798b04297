#include "hwdb/launch/launch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hwdb/database.h"
#include "hwdb/launch/launch_fields.h"
#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

using Changes = std::map<std::string, sim::FieldValue>;

const Database& facts() {
  static const Database database(":memory:");
  return database;
}

RunResolver& resolver() {
  static RunResolver one(facts());
  return one;
}

RunRecord record_on(const std::string& model, int devices, const std::string& framework,
                    const Changes& changes) {
  RunRecord record;
  record.id = model;
  record.model.name = model;
  record.model.fields["seq_len"] = 4096;
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = devices;
  record.training.framework = framework;
  record.training.strategy = {{"precision", "bf16"}, {"global_batch", 128}};
  for (const auto& [key, value] : changes) {
    if (sim::find_strategy_field(key))
      record.training.strategy[key] = value;
    else
      record.training.settings[key] = value;
  }
  return record;
}

sim::Run run_on(const std::string& model, int devices, const std::string& framework,
                const Changes& changes) {
  return resolver().resolve(record_on(model, devices, framework, changes));
}

// The run of the file that a target writes of a run, on the same hardware.
sim::Run read_again(const sim::Run& run, const std::string& target) {
  const LaunchFile file = launch_files(run, target, resolver()).front();
  RunRecord record = parse_launch(file.text, file.name).record;
  if (record.model.fields.empty() && !record.model.name) record.model = recorded(run.model);
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

// What can be carried out is written and read as the same run; returns how many runs were.
int check_round_trips(const std::string& model, int devices, const std::string& target,
                      const std::map<std::string, std::vector<sim::FieldValue>>& lists) {
  int checked = 0;
  for (const Changes& changes : combinations(lists)) {
    sim::Run run;
    if (!error_of([&] {
           run = run_on(model, devices, framework_of_target(target), changes);
         }).empty())
      continue;
    sim::Prediction asked;
    if (!error_of([&] { asked = sim::predict(run); }).empty()) continue;  // no such arithmetic
    if (asked.step_time <= sim::Seconds(0.0)) continue;                   // it breaks a rule
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
  for (const char* sharding : {"none", "hsdp"}) {
    EXPECT_EQ(check_round_trips("llama-3-8b", 16, "torchtitan",
                                {{"sharding", {sharding}}, {"shard_size", {4}}, {"tp", {1, 2}}}),
              2);
  }
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
                              {{"tp", {1, 2}},
                               {"sharding", {"none", "zero2", "zero3"}},
                               {"recompute.kind", {"none", "full"}},
                               {"precision", {"bf16", "fp16"}}}),
            24);
  EXPECT_EQ(check_round_trips("llama-3-8b", 16, "accelerate",
                              {{"sharding", {"hsdp"}}, {"shard_size", {4, 8}}}),
            2);
}

TEST(LaunchFile, WhatATargetCannotExpressIsNamed) {
  const auto refusal = [](const std::string& target, const Changes& changes) {
    return error_of([&] {
      launch_files(run_on("llama-3-8b", 16, framework_of_target(target), changes), target,
                   resolver());
    });
  };
  EXPECT_EQ(refusal("megatron", {{"recompute.kind", "op"}}),
            "megatron cannot express recompute.kind = op");
  EXPECT_EQ(refusal("megatron", {{"compile", true}}),
            "megatron cannot express training.compile = true");
  EXPECT_EQ(refusal("megatron", {{"weight_dtype", "fp32"}}),
            "megatron cannot express training.weight_dtype = fp32");
  // torchtitan gives what does not divide to the first stages, this plan to those in the middle.
  EXPECT_EQ(refusal("torchtitan", {{"pp", 4}, {"embeddings_as_layers", true}}),
            "torchtitan cannot express training.stage_layers = Et*7|t*9|t*9|t*7L");
  EXPECT_EQ(refusal("torchtitan", {{"sharding", "zero1"}}).substr(0, 50),
            "torchtitan cannot express sharding = zero1, dp = 1");
  EXPECT_EQ(error_of([&] {
              launch_files(run_on("llama-3-8b", 16, "fsdp2", {}), "megatron", resolver());
            }),
            "megatron cannot express training.framework = fsdp2: megatron-lm is expected");
  EXPECT_EQ(error_of([] { framework_of_target("megatorn"); }).substr(0, 42),
            "target megatorn: one of megatron, torchtit");
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
  EXPECT_EQ(error_of([] { parse_launch("--num-layers 2 --hiden-size 8", "a.sh"); }),
            "a.sh: --hiden-size: not known of megatron; did you mean --hidden-size?");
}

TEST(LaunchFile, ValuesThatNoCaseHasAreNamed) {
  EXPECT_EQ(error_of([] { parse_launch("--num-layers 2 --recompute-granularity some", "a.sh"); }),
            "a.sh: --recompute-granularity = some: no such combination of megatron is modelled");
  EXPECT_EQ(error_of([] { parse_launch("--num-layers two", "a.sh"); }).substr(0, 34),
            "a.sh: model.num_layers = two: an i");
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
  EXPECT_EQ(noted("assumed.model.num_layers"), "");
}

}  // namespace
}  // namespace llmsim::hwdb
