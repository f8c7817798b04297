// Plans that a target can express: what a search keeps and what it leaves out.
#include "hwdb/launch/target_space.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hwdb/launch/launch_file.h"
#include "hwdb/launch/row_text.h"
#include "hwdb/runs/plan_query.h"
#include "hwdb/store/database.h"
#include "tests/error_of.h"
#include "tests/hwdb/launch/shipped_resolver.h"

namespace llmsim::hwdb {
namespace {

sim::PlanQuery query_of(const std::string& model, int devices, const std::string& framework,
                        const sim::PartialRecord& stated = {}) {
  RunRecord record;
  record.id = model;
  record.model.name = model;
  record.hardware.accelerator = framework == "maxtext" ? "tpu_v5p" : "h100_sxm";
  record.hardware.num_devices = devices;
  record.training.framework = framework;
  record.training.strategy = {{"precision", "bf16"}, {"global_batch", 256}};
  for (const auto& [key, value] : stated) record.training.strategy[key] = value;
  sim::PlanQuery query = plan_query(record, resolver());
  query.pareto = false;
  return query;
}

std::string refusal_of(const sim::Run& run, const std::string& target) {
  return error_of([&] { launch_files(run, target, resolver()); });
}

struct Question {
  const char *model, *framework;
  int devices;
};

// A model that fits anywhere, one that needs all ranks, one with experts, one whose layers do not
// divide.
std::vector<Question> questions() {
  std::vector<Question> all;
  for (const char* framework :
       {"megatron-lm", "megatron-bridge", "torchtitan", "fsdp1", "fsdp2", "hf-trainer-fsdp",
        "deepspeed", "hf-trainer-deepspeed", "maxtext"}) {
    all.push_back({"llama-3-8b", framework, 16});
    all.push_back({"llama-3-70b", framework, 128});
    all.push_back({"mixtral-8x7b", framework, 64});
    all.push_back({"qwen3-30b-a3b", framework, 64});
  }
  all.push_back({"nemotron-h-47b", "megatron-bridge", 64});
  return all;
}

TEST(TargetSpace, TheBestPlanOfWhatATargetCanExpressIsWritten) {
  for (const auto& [model, framework, devices] : questions()) {
    const auto target = target_of_framework(framework);
    if (!target || (*target == "torchtitan" && std::string(model) == "mixtral-8x7b")) continue;
    // With more than two sequences a device the Trainer's gradients wait whole for the last
    // micro-batch, 93 GB of Mixtral.
    const bool waits = std::string(framework) == "hf-trainer-fsdp";
    const sim::PartialRecord batch{{"global_batch", waits ? 2 * devices : 256}};
    const sim::Plan plan =
        sim::plan(written_by(query_of(model, devices, framework, batch), *target));
    ASSERT_FALSE(plan.plans.empty()) << model << ", " << framework;
    EXPECT_EQ(refusal_of(plan.plans.front().run, *target), "") << model << ", " << framework;
  }
}

// Of the plans of a search without the restriction none that can be written is faster.
TEST(TargetSpace, NothingThatCanBeWrittenIsLeftOut) {
  for (const char* framework : {"megatron-lm", "torchtitan", "fsdp2", "hf-trainer-deepspeed"}) {
    const std::string target = target_of_framework(framework).value();
    sim::PlanQuery query = query_of("llama-3-8b", 16, framework);
    query.top = 300;
    sim::Seconds best{};
    for (const sim::Prediction& plan : sim::plan(query).plans) {
      if (!refusal_of(plan.run, target).empty()) continue;
      best = plan.step_time;
      break;
    }
    const sim::Plan written = sim::plan(written_by(query, target));
    ASSERT_FALSE(written.plans.empty()) << framework;
    if (best > sim::Seconds{}) {
      EXPECT_LE(written.plans.front().step_time, 1.02 * best) << framework;
    }
  }
}

TEST(TargetSpace, ValuesWithWhichNoPlanCanBeWrittenAreNotSearched) {
  const auto excluded = [](const std::string& framework, const char* key,
                           const char* model = "mixtral-8x7b") {
    std::string text;
    const auto all = written_by(query_of(model, 8, framework), *target_of_framework(framework));
    const auto values = all.excluded.find(key);
    if (values == all.excluded.end()) return text;
    for (const sim::FieldValue& value : values->second)
      text += (text.empty() ? "" : " ") + sim::text_of(value);
    return text;
  };
  EXPECT_EQ(excluded("fsdp2", "pp"), "2 4 8");
  EXPECT_EQ(excluded("fsdp2", "ep"), "2 4 8");
  EXPECT_EQ(excluded("fsdp2", "tp"), "");
  EXPECT_EQ(excluded("fsdp1", "tp"), "2 4 8");
  EXPECT_EQ(excluded("fsdp2", "sequence_parallel"), "true");
  EXPECT_EQ(excluded("fsdp2", "sharding"), "zero1 zero2");
  EXPECT_EQ(excluded("fsdp1", "sharding"), "zero1");
  EXPECT_EQ(excluded("megatron-lm", "pp"), "");
  EXPECT_EQ(excluded("megatron-lm", "sharding"), "hsdp");
  // Chunks of hybrids are stages, which embeddings do not lengthen.
  EXPECT_EQ(excluded("megatron-bridge", "embeddings_as_layers", "nemotron-h-47b"), "true");
  EXPECT_EQ(excluded("megatron-bridge", "virtual_stages", "nemotron-h-47b").substr(0, 11),
            "2 4 8 3 5 6");
  EXPECT_EQ(excluded("megatron-bridge", "embeddings_as_layers"), "");
}

TEST(TargetSpace, OfWhatIsAskedForWhatCanBeWrittenIsSearched) {
  sim::PlanQuery query = query_of("llama-3-8b", 8, "fsdp2");
  query.restriction["pp"] = {std::int64_t{1}, std::int64_t{2}};
  query.restriction["recompute"] = {std::string("full"), std::string("op")};
  const sim::PlanQuery written = written_by(query, "accelerate");
  EXPECT_EQ(written.excluded.at("pp"), (std::vector<sim::FieldValue>{std::int64_t{2}}));
  EXPECT_EQ(written.excluded.at("recompute"), (std::vector<sim::FieldValue>{std::string("op")}));
  query.restriction["pp"] = {std::int64_t{2}};
  EXPECT_EQ(error_of([&] { written_by(query, "accelerate"); }),
            "accelerate cannot express pp = 2: pipelines are another program's");
  query.restriction = {{"recompute", {std::string("op")}}};
  EXPECT_EQ(error_of([&] { written_by(query, "accelerate"); }),
            "accelerate cannot express recompute.kind = op");
}

// Whether the ranks that are left shard anything is known of whole strategies alone.
TEST(TargetSpace, AStrategyThatCannotBeWrittenBreaksARule) {
  sim::PlanQuery query = query_of("llama-3.2-1b", 8, "fsdp1");
  query.restriction = {{"sharding", {std::string("hsdp")}}, {"shard_size", {std::int64_t{4}}}};
  const sim::Plan plan = sim::plan(written_by(query, "accelerate"));
  EXPECT_TRUE(plan.plans.empty());
  EXPECT_TRUE(plan.rejected.contains("what accelerate cannot express"));
}

TEST(TargetSpace, WhatNoChoiceMendsIsSaidBeforeTheSearch) {
  const auto refusal = [](const std::string& framework, const char* optimizer) {
    return error_of([&] {
      written_by(query_of("llama-3-8b", 8, framework, {{"optimizer", std::string(optimizer)}}),
                 *target_of_framework(framework));
    });
  };
  EXPECT_EQ(refusal("megatron-lm", "lion"), "megatron cannot express optimizer = lion");
  EXPECT_EQ(refusal("torchtitan", "muon"),
            "torchtitan cannot express optimizer = muon: optimizers are Adam and AdamW");
  EXPECT_EQ(refusal("megatron-lm", "adamw"), "");
}

TEST(TargetSpace, ScriptsAreOfTheProgramThatTheyStart) {
  const sim::PlanQuery query = query_of("llama-3-8b", 8, "fsdp2");
  EXPECT_EQ(written_by(query, "slurm").rule, written_by(query, "accelerate").rule);
  EXPECT_EQ(written_by(query_of("llama-3-8b", 8, "litgpt"), "slurm").rule, "");
}

TEST(OpenRun, TermsOnWhatIsYetToBeChosenMayHold) {
  const LaunchTable table = table_of_text(
      "kind <-> sharding\n"
      "    ddp   <->  none\n"
      "    fsdp  <->  zero3  when framework = fsdp2, dp = 8\n",
      "some.rows");
  const Row& row = table.rows.at(0);
  const auto run = [](LaunchValues fields) {
    return OpenRun{std::move(fields),
                   [](const std::string& key) { return key == "dp" || key == "tp"; }};
  };
  EXPECT_TRUE(may_be_written(row, run({{"sharding", "zero3"}, {"framework", "fsdp2"}})));
  EXPECT_FALSE(may_be_written(row, run({{"sharding", "zero3"}, {"framework", "fsdp1"}})));
  EXPECT_FALSE(may_be_written(row, run({{"sharding", "zero1"}, {"framework", "fsdp2"}})));
  EXPECT_TRUE(may_be_written(row, run({{"framework", "fsdp1"}})));  // it says nothing
  const std::vector<Term> rule{{"sharding", "none"}, {"tp", "2"}};
  EXPECT_FALSE(always_hold(rule, run({{"sharding", "none"}, {"tp", "2"}})));
  EXPECT_TRUE(always_hold({rule.front()}, run({{"sharding", "none"}})));
}

}  // namespace
}  // namespace llmsim::hwdb
