#include "hwdb/stacks.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kTwoStacks = R"({"schema": 1, "stacks": [
  {"id": "plain", "name": "Plain", "fields": {
    "storage.gradient_bytes": {"value": 2, "evidence": "data_sheet", "source": "manual"},
    "fragmentation": {"value": 1.5, "evidence": "measured", "source": "log"}}},
  {"id": "better", "name": "Better", "like": "plain", "fields": {
    "fragmentation": {"value": 1.1, "evidence": "measured", "source": "log"}}}],
 "rules": [
  {"when": {"framework": "better", "before": "2022-09-01"}, "set": {
    "default.flash_attention": {"value": false, "evidence": "assumed", "source": "too old"}}},
  {"when": {"framework_detail": ["slow", "sluggish"]}, "set": {
    "efficiency": {"value": 0.5, "evidence": "measured", "source": "log"}}}]})";

Stacks two() { return Stacks::parse(kTwoStacks, "stacks.json"); }

std::string error_of(const std::string& text) {
  try {
    Stacks::parse(text, "stacks.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const sim::Fact* fact(const StackChoice& choice, const std::string& key) {
  for (const sim::Fact& found : choice.facts) {
    if (found.key == key) return &found;
  }
  return nullptr;
}

StackQuery asked(const std::string& framework, const std::string& date = "", const std::string& detail = "") {
  StackQuery query;
  query.framework = framework;
  query.date = date;
  query.framework_detail = detail;
  return query;
}

TEST(Stacks, AStackLikeAnotherTakesOverItsFields) {
  const StackChoice choice = two().choose(asked("better"));
  EXPECT_EQ(choice.stack.id, "better");
  EXPECT_EQ(choice.stack.storage.gradient_bytes, 2.0);
  EXPECT_EQ(choice.stack.reserve.fragmentation, 1.1);
  EXPECT_TRUE(choice.defaults.flash_attention);
}

TEST(Stacks, EveryFieldComesWithItsSource) {
  const StackChoice choice = two().choose(asked("better"));
  ASSERT_EQ(choice.facts.size(), 2u);
  const sim::Fact* gradients = fact(choice, "stack.better.storage.gradient_bytes");
  ASSERT_NE(gradients, nullptr);
  EXPECT_EQ(gradients->value, "2");
  EXPECT_EQ(gradients->evidence, sim::Evidence::DataSheet);
  EXPECT_EQ(gradients->source, "manual");
}

TEST(Stacks, ARuleAppliesWhereAllItsConditionsHold) {
  EXPECT_FALSE(two().choose(asked("better", "2021-05-01")).defaults.flash_attention);
  EXPECT_TRUE(two().choose(asked("better", "2022-09-01")).defaults.flash_attention);
  EXPECT_TRUE(two().choose(asked("plain", "2021-05-01")).defaults.flash_attention);
  EXPECT_TRUE(two().choose(asked("better", "")).defaults.flash_attention);  // an unknown date is not old
}

TEST(Stacks, AConditionWithSeveralValuesNeedsOneOfThem) {
  EXPECT_EQ(two().choose(asked("plain", "", "a sluggish build")).stack.efficiency, 0.5);
  EXPECT_EQ(two().choose(asked("plain", "", "a quick build")).stack.efficiency, 1.0);
}

StackChoice ruled(const std::string& when, const StackQuery& query) {
  return Stacks::parse(R"({"stacks": [{"id": "a"}], "rules": [{"when": )" + when +
                           R"(, "set": {"efficiency": {"value": 0.5, "evidence": "assumed", "source": "s"}}}]})",
                       "stacks.json")
      .choose(query);
}

TEST(Stacks, WordsStandInTheDetailOrInTheNotes) {
  const auto efficiency = [](const StackQuery& query) { return ruled(R"({"words": ["Liger"]})", query).stack.efficiency; };
  StackQuery query = asked("a");
  EXPECT_EQ(efficiency(query), 1.0);
  query.notes = "with Liger kernels";
  EXPECT_EQ(efficiency(query), 0.5);
  EXPECT_EQ(efficiency(asked("a", "", "Liger 0.3")), 0.5);
}

TEST(Stacks, WhatIsTrainedIsACondition) {
  StackQuery query = asked("a");
  query.trainable = "lora";
  EXPECT_EQ(ruled(R"({"trainable": "all"})", query).stack.efficiency, 1.0);
  EXPECT_EQ(ruled(R"({"trainable": "lora"})", query).stack.efficiency, 0.5);
}

TEST(Stacks, BlocksWithExpertsAreACondition) {
  StackQuery query = asked("a");
  query.blocks = "mixture";
  EXPECT_EQ(ruled(R"({"blocks": "dense"})", query).stack.efficiency, 1.0);
  EXPECT_EQ(ruled(R"({"blocks": "mixture"})", query).stack.efficiency, 0.5);
}

TEST(Stacks, AnUnknownFrameworkIsRefusedWithTheNearestOne) {
  try {
    two().choose(asked("beter"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "framework = beter: unknown training stack; did you mean better?");
  }
}

Coefficient of_stack(const std::string& id, const std::string& key, double value) {
  return {"stack", id, key, value, 0.1, sim::Evidence::Fitted, "own runs", "step times", Origin::User};
}

TEST(Stacks, ACoefficientReplacesAFieldAlsoOfThoseThatAreLikeTheStack) {
  Stacks stacks = two();
  stacks.put(of_stack("plain", "efficiency", 0.7));
  const StackChoice choice = stacks.choose(asked("better"));
  EXPECT_EQ(choice.stack.efficiency, 0.7);
  EXPECT_EQ(fact(choice, "stack.better.efficiency")->source, "own runs");
  EXPECT_EQ(fact(choice, "stack.better.efficiency")->evidence, sim::Evidence::Fitted);
}

TEST(Stacks, ANearerFieldAndARuleWinOverACoefficient) {
  Stacks stacks = two();
  stacks.put(of_stack("plain", "fragmentation", 3.0));
  stacks.put(of_stack("plain", "efficiency", 0.7));
  EXPECT_EQ(stacks.choose(asked("plain")).stack.reserve.fragmentation, 3.0);
  EXPECT_EQ(stacks.choose(asked("better")).stack.reserve.fragmentation, 1.1);
  EXPECT_EQ(stacks.choose(asked("plain", "", "slow")).stack.efficiency, 0.5);
}

TEST(Stacks, ACoefficientOfAnUnknownStackOrFieldIsRefused) {
  const auto message = [](const Coefficient& coefficient) -> std::string {
    try {
      two().put(coefficient);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(of_stack("beter", "efficiency", 1.0)),
            "coefficient of stack beter: unknown training stack; did you mean better?");
  EXPECT_EQ(message(of_stack("better", "eficiency", 1.0)),
            "coefficient of stack better: eficiency: unknown field; did you mean efficiency?");
  EXPECT_EQ(message(of_stack("better", "fp32_logits", 1.0)),
            "coefficient of stack better: fp32_logits = 1.0: wrong type or range for this field");
}

TEST(Stacks, ANumberIsThatOfTheNearestStackThatSetsIt) {
  EXPECT_EQ(two().number("better", "storage.gradient_bytes"), 2.0);
  EXPECT_EQ(two().number("better", "fragmentation"), 1.1);
  EXPECT_FALSE(two().number("better", "efficiency"));
  EXPECT_FALSE(two().number("best", "fragmentation"));
}

TEST(Stacks, MistakesInTheFileAreNamed) {
  const auto one = [](const std::string& fields) {
    return R"({"stacks": [{"id": "a", "name": "A", "fields": {)" + fields + "}}]}";
  };
  EXPECT_EQ(error_of(one(R"("fragmentatio": {"value": 1, "evidence": "assumed", "source": "s"})")),
            "stacks.json: stack a: fragmentatio: unknown field; did you mean fragmentation?");
  EXPECT_EQ(error_of(one(R"("fragmentation": {"value": "x", "evidence": "assumed", "source": "s"})")),
            "stacks.json: stack a: fragmentation = \"x\": wrong type or range for this field");
  EXPECT_EQ(error_of(one(R"("fragmentation": {"value": 1, "evidence": "assumed"})")),
            "stacks.json: stack a: fragmentation: value, evidence and source are all needed");
  EXPECT_EQ(error_of(R"({"stacks": [{"id": "a", "like": "b"}]})"),
            "stacks.json: stack a: like = b: no stack before this one has that id");
  EXPECT_EQ(error_of(R"({"stacks": [], "rules": [{"when": {}, "set": {}}]})"),
            "stacks.json: rule 1: a rule needs a condition in \"when\"");
}

TEST(ShippedStacks, KnowEveryFrameworkOfTheSchema) {
  const Stacks stacks = Stacks::shipped();
  for (const char* id : {"megatron-lm", "megatron-bridge",
                         "nemo",        "megatron-deepspeed",
                         "deepspeed",   "fsdp1",
                         "fsdp2",       "torchtitan",
                         "llm-foundry", "ddp",
                         "pytorch",     "nanotron",
                         "internevo",   "litgpt",
                         "maxtext",     "jax-toolbox",
                         "levanter",    "torchtune",
                         "libtorch",    "libtorch-autocast",
                         "other"}) {
    EXPECT_FALSE(stacks.choose(asked(id)).facts.empty()) << id;
  }
}

// Bytes of one parameter and its AdamW states, nothing sharded.
double resident_bytes(const sim::ParameterStorage& s) {
  return s.weight_bytes + s.gradient_bytes + s.main_gradient_bytes + s.master_bytes + 2 * s.state_bytes;
}

double resident_bytes(const std::string& framework, const std::string& precision) {
  StackQuery query = asked(framework);
  query.precision = precision;
  return resident_bytes(Stacks::shipped().choose(query).stack.storage);
}

// Megatron Core User Guide, Distributed Optimizer: 20, 18 and 16 bytes per parameter.
TEST(ShippedStacks, MegatronKeepsTheDocumentedBytesPerParameter) {
  EXPECT_EQ(resident_bytes("megatron-lm", "fp16"), 20.0);
  EXPECT_EQ(resident_bytes("megatron-lm", "bf16"), 18.0);
  EXPECT_EQ(resident_bytes("megatron-lm", "fp32"), 16.0);
  EXPECT_EQ(resident_bytes("megatron-lm-2021", "fp16"), 20.0);
}

// 2 + 2 + 4 + 8; the measured 14 are what is left after a step, when the gradients are gone.
TEST(ShippedStacks, DeepSpeedKeepsSixteenBytesPerParameterWithGradients) {
  EXPECT_EQ(resident_bytes("deepspeed", "fp16"), 16.0);
  EXPECT_EQ(resident_bytes("megatron-deepspeed", "fp16"), 16.0);
}

TEST(ShippedStacks, AutocastOverFp32WeightsKeepsSixteenBytesPerParameter) {
  EXPECT_EQ(resident_bytes("pytorch", "bf16"), 16.0);
  EXPECT_EQ(resident_bytes("fsdp2", "bf16"), 16.0);
}

TEST(ShippedStacks, NoFlashAttentionOnV100OrWithAlibi) {
  StackQuery query = asked("pytorch");
  EXPECT_TRUE(Stacks::shipped().choose(query).defaults.flash_attention);
  query.accelerator = "v100_sxm_32";
  EXPECT_FALSE(Stacks::shipped().choose(query).defaults.flash_attention);
  query.accelerator = "a100_sxm_80";
  query.position = "alibi";
  EXPECT_FALSE(Stacks::shipped().choose(query).defaults.flash_attention);
}

TEST(ShippedStacks, FunctionalTestsOfMixturesWithRotaryPositionsHaveNoDropout) {
  StackQuery query = asked("megatron-lm", "2026-08-22", "megatron-core (functional test CI)");
  const auto dropout = [&](const char* blocks, const char* position) {
    query.blocks = blocks, query.position = position;
    return Stacks::shipped().choose(query).stack.dropout;
  };
  EXPECT_EQ(dropout("mixture", "rope"), 0.0);
  EXPECT_EQ(dropout("mixture", "learned"), 0.1);
  EXPECT_EQ(dropout("dense", "rope"), 0.1);
}

sim::AttentionKernel kernel(const std::string& framework, const std::string& accelerator, const std::string& date,
                            const std::string& detail = "") {
  StackQuery query = asked(framework, date, detail);
  query.accelerator = accelerator;
  return Stacks::shipped().choose(query).stack.attention_kernel;
}

TEST(ShippedStacks, BloomHasANormAfterItsEmbeddingAndNoDropout) {
  StackQuery query = asked("megatron-deepspeed", "2022-02-20");
  query.model = "bloom-176b";
  const StackChoice choice = Stacks::shipped().choose(query);
  EXPECT_TRUE(choice.defaults.embedding_norm);
  EXPECT_EQ(choice.stack.dropout, 0.0);
}

TEST(Stacks, NoRuleNamesAPublishedGroup) {
  EXPECT_NE(error_of(R"({"stacks": [], "rules": [{"when": {"group": "bloom-tuning"}, "set": {}}]})").find("group"),
            std::string::npos);
}

TEST(Stacks, TheAttentionKernelFollowsFrameworkDeviceAndDate) {
  using sim::AttentionKernel;
  EXPECT_EQ(kernel("megatron-lm", "h100_sxm", "2025-01-01"), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel("megatron-lm", "a100_sxm_80", "2025-01-01"), AttentionKernel::Flash2);
  EXPECT_EQ(kernel("fsdp2", "h100_sxm", "2025-01-01"), AttentionKernel::Flash2);
  EXPECT_EQ(kernel("fsdp1", "a100_sxm_80", "2023-05-01"), AttentionKernel::Flash1);
  EXPECT_EQ(kernel("maxtext", "tpu_v5e", ""), AttentionKernel::Splash);
  EXPECT_EQ(kernel("megatron-lm", "gb200", "2026-01-01", "deterministic=true"), AttentionKernel::Flash2);
}

// torchtitan pull request 1196 of 2025-05-15.
TEST(Stacks, TorchtitanCallsCudnnOnBlackwellSinceItsPullRequest) {
  EXPECT_EQ(kernel("torchtitan", "b200_sxm", "2025-05-14"), sim::AttentionKernel::Flash2);
  EXPECT_EQ(kernel("torchtitan", "b200_sxm", "2025-05-15"), sim::AttentionKernel::Cudnn);
}

// pytorch issue 135431: fixed in the nightly build of 2024-09-30.
TEST(Stacks, PyTorchOnRocmHadASlowBackwardKernelUntilOctober2024) {
  EXPECT_EQ(kernel("torchtitan", "mi250x_gcd", "2024-09-25"), sim::AttentionKernel::AotritonFirst);
  EXPECT_EQ(kernel("torchtitan", "mi250x_gcd", "2024-10-01"), sim::AttentionKernel::Aotriton);
  EXPECT_EQ(kernel("ddp", "mi300x", "2024-09-09", "CK flash-attention"), sim::AttentionKernel::ComposableKernel);
  EXPECT_EQ(kernel("megatron-lm", "mi300x", "2026-02-02"), sim::AttentionKernel::ComposableKernel);
}

TEST(Stacks, ProductsOnMi300xAreThoseThatTheLibraryPicksUnlessTheRunTunesThem) {
  StackQuery query = asked("fsdp2");
  query.accelerator = "mi300x";
  EXPECT_LT(Stacks::shipped().choose(query).stack.gemm_efficiency, 0.8);
  query.framework_detail = "ROCm 6.3, TunableOp on";
  EXPECT_EQ(Stacks::shipped().choose(query).stack.gemm_efficiency, 1.0);
  EXPECT_EQ(Stacks::shipped().choose(asked("fsdp2")).stack.gemm_efficiency, 1.0);
}

}  // namespace
}  // namespace llmsim::hwdb
