#include "hwdb/frameworks/frameworks.h"

#include <gtest/gtest.h>

#include "hwdb/text/input_file.h"
#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kTwoFrameworks = R"({"schema": 1, "frameworks": [
  {"id": "plain", "name": "Plain", "fields": {
    "storage.gradient_bytes": {"value": 2, "evidence": "data_sheet", "source": "manual"},
    "reserve.fragmentation": {"value": 1.5, "evidence": "measured", "source": "log"}}},
  {"id": "better", "name": "Better", "like": "plain", "fields": {
    "reserve.fragmentation": {"value": 1.1, "evidence": "measured", "source": "log"}}}],
 "rules": [
  {"when": {"framework": "better"}, "set": {
    "default.flash_attention": [{"until": "2022-09-01", "value": false, "evidence": "assumed", "source": "too old"}]}},
  {"when": {"precision": ["fp32", "tf32"]}, "set": {
    "efficiency": {"value": 0.5, "evidence": "measured", "source": "log"}}}]})";

Frameworks two() { return Frameworks::parse(kTwoFrameworks, "frameworks.json"); }

std::string frameworks_error(const std::string& text) {
  return error_of([&] { Frameworks::parse(text, "frameworks.json"); });
}

const sim::Fact* fact(const FrameworkChoice& choice, const std::string& key) {
  for (const sim::Fact& found : choice.facts) {
    if (found.key == key) return &found;
  }
  return nullptr;
}

FrameworkQuery asked(const std::string& framework, const std::string& date = "",
                     const std::string& precision = "") {
  return {.framework = framework, .date = date, .precision = precision};
}

TEST(Frameworks, AFrameworkLikeAnotherTakesOverItsFields) {
  const FrameworkChoice choice = two().choose(asked("better"));
  EXPECT_EQ(choice.framework.id, "better");
  EXPECT_EQ(choice.framework.storage.gradient_bytes, 2.0);
  EXPECT_EQ(choice.framework.reserve.fragmentation, 1.1);
  EXPECT_TRUE(choice.defaults.strategy.flash_attention);
}

// "better" is like "plain" and ruled as it; "best" is like it and has rules of its own alone.
TEST(Frameworks, RulesOfAnotherFrameworkHoldWhereTheRecordSaysSo) {
  const Frameworks frameworks = Frameworks::parse(
      R"({"frameworks": [{"id": "plain"}, {"id": "better", "like": "plain", "rules_of": "plain"},
                         {"id": "best", "like": "plain"}],
 "attention_kernels": [
  {"when": {"framework": "plain"}, "kernel": "flash-3", "evidence": "assumed", "source": "s"}],
 "rules": [
  {"when": {"framework": "plain", "precision": "fp32"}, "set": {
    "efficiency": {"value": 0.5, "evidence": "assumed", "source": "s"}}},
  {"when": {"framework": "better", "precision": "fp32"}, "set": {
    "vocab_multiple": {"value": 8, "evidence": "assumed", "source": "s"}}}]})",
      "frameworks.json");
  const auto chosen = [&](const char* id, const char* precision) {
    return frameworks.choose(asked(id, "", precision)).framework;
  };
  EXPECT_EQ(chosen("better", "fp32").efficiency, 0.5);
  EXPECT_EQ(chosen("better", "fp32").vocab_multiple, 8);
  EXPECT_EQ(chosen("better", "bf16").efficiency, 1.0);
  EXPECT_EQ(chosen("better", "bf16").attention_kernel, sim::AttentionKernel::Flash3);
  EXPECT_EQ(chosen("plain", "fp32").vocab_multiple, 1);
  EXPECT_EQ(chosen("best", "fp32").efficiency, 1.0);
  EXPECT_NE(chosen("best", "bf16").attention_kernel, sim::AttentionKernel::Flash3);
}

TEST(Frameworks, EveryFieldComesWithItsSource) {
  const FrameworkChoice choice = two().choose(asked("better"));
  ASSERT_EQ(choice.facts.size(), 2u);
  const sim::Fact* gradients = fact(choice, "framework.better.storage.gradient_bytes");
  ASSERT_NE(gradients, nullptr);
  EXPECT_EQ(gradients->value, "2");
  EXPECT_EQ(gradients->evidence, sim::Evidence::DataSheet);
  EXPECT_EQ(gradients->source, "manual");
}

TEST(Frameworks, ARuleAppliesWhereAllItsConditionsHold) {
  EXPECT_FALSE(two().choose(asked("better", "2021-05-01")).defaults.strategy.flash_attention);
  EXPECT_TRUE(two().choose(asked("better", "2022-09-01")).defaults.strategy.flash_attention);
  EXPECT_TRUE(two().choose(asked("plain", "2021-05-01")).defaults.strategy.flash_attention);
  // An unknown date is not old.
  EXPECT_TRUE(two().choose(asked("better", "")).defaults.strategy.flash_attention);
}

TEST(Frameworks, AConditionWithSeveralValuesNeedsOneOfThem) {
  EXPECT_EQ(two().choose(asked("plain", "", "tf32")).framework.efficiency, 0.5);
  EXPECT_EQ(two().choose(asked("plain", "", "bf16")).framework.efficiency, 1.0);
}

FrameworkChoice ruled(const std::string& when, const FrameworkQuery& query) {
  return Frameworks::
      parse(R"({"frameworks": [{"id": "a"}], "rules": [{"when": )" + when +
                R"(, "set": {"efficiency": {"value": 0.5, "evidence": "assumed", "source": "s"}}}]})",
            "frameworks.json")
          .choose(query);
}

TEST(Frameworks, ASettingThatTheRunStatesIsACondition) {
  const auto efficiency = [](const FrameworkQuery& query) {
    return ruled(R"({"deterministic": ["true"]})", query).framework.efficiency;
  };
  FrameworkQuery query = asked("a");
  EXPECT_EQ(efficiency(query), 1.0);
  query.settings["deterministic"] = false;
  EXPECT_EQ(efficiency(query), 1.0);
  query.settings["deterministic"] = true;
  EXPECT_EQ(efficiency(query), 0.5);
}

TEST(Frameworks, FreeTextIsNoCondition) {
  for (const char* key :
       {"notes", "framework_detail", "precision_detail", "words", "model", "source"}) {
    EXPECT_THROW(ruled("{\"" + std::string(key) + "\": [\"x\"]}", asked("a")), Error) << key;
  }
}

// Two values with dates, then the one that holds today.
TEST(Frameworks, AFieldHasTheValueOfItsDate) {
  const Frameworks frameworks = Frameworks::parse(
      R"({"frameworks": [{"id": "a", "releases": {"0.9": "2021-06-01"}, "fields": {"efficiency": [
    {"until": "2021-01-01", "value": 0.5, "evidence": "assumed", "source": "s"},
    {"until": "2022-01-01", "value": 0.6, "evidence": "assumed", "source": "s"},
    {"value": 0.7, "evidence": "assumed", "source": "s"}]}}]})",
      "frameworks.json");
  const auto efficiency = [&](const char* date, const char* version) {
    FrameworkQuery query = asked("a", date);
    query.version = version;
    return frameworks.choose(query).framework.efficiency;
  };
  EXPECT_EQ(efficiency("2020-12-31", ""), 0.5);
  EXPECT_EQ(efficiency("2021-01-01", ""), 0.6);
  EXPECT_EQ(efficiency("2022-01-01", ""), 0.7);
  EXPECT_EQ(efficiency("", ""), 0.7);
  EXPECT_EQ(efficiency("2025-01-01", "0.9"), 0.6);  // the release counts
  EXPECT_EQ(efficiency("2020-12-31", "0.8"), 0.5);  // an unknown one does not
}

TEST(Frameworks, DatesOfAFieldRise) {
  EXPECT_NE(frameworks_error(R"({"frameworks": [{"id": "a", "fields": {"efficiency": [
    {"value": 0.7, "evidence": "assumed", "source": "s"},
    {"until": "2022-01-01", "value": 0.6, "evidence": "assumed", "source": "s"}]}}]})")
                .find("dates must rise"),
            std::string::npos);
}

TEST(Frameworks, WhatIsTrainedIsACondition) {
  FrameworkQuery query = asked("a");
  query.trainable = "lora";
  EXPECT_EQ(ruled(R"({"trainable": "all"})", query).framework.efficiency, 1.0);
  EXPECT_EQ(ruled(R"({"trainable": "lora"})", query).framework.efficiency, 0.5);
}

TEST(Frameworks, BlocksWithExpertsAreACondition) {
  FrameworkQuery query = asked("a");
  query.blocks = "moe";
  EXPECT_EQ(ruled(R"({"blocks": "dense"})", query).framework.efficiency, 1.0);
  EXPECT_EQ(ruled(R"({"blocks": "moe"})", query).framework.efficiency, 0.5);
}

TEST(Frameworks, AnUnknownFrameworkIsRefusedWithTheNearestOne) {
  try {
    two().choose(asked("beter"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "framework = beter: unknown training framework; did you mean better?");
  }
}

Coefficient of_framework(const std::string& id, const std::string& key, double value) {
  return {"framework",           id,         key,          value,       0.1,
          sim::Evidence::Fitted, "own runs", "step times", Origin::User};
}

TEST(Frameworks, ACoefficientReplacesAFieldAlsoOfThoseThatAreLikeTheFramework) {
  Frameworks frameworks = two();
  frameworks.put(of_framework("plain", "efficiency", 0.7));
  const FrameworkChoice choice = frameworks.choose(asked("better"));
  EXPECT_EQ(choice.framework.efficiency, 0.7);
  EXPECT_EQ(fact(choice, "framework.better.efficiency")->source, "own runs");
  EXPECT_EQ(fact(choice, "framework.better.efficiency")->evidence, sim::Evidence::Fitted);
}

TEST(Frameworks, ANearerFieldAndARuleWinOverACoefficient) {
  Frameworks frameworks = two();
  frameworks.put(of_framework("plain", "reserve.fragmentation", 3.0));
  frameworks.put(of_framework("plain", "efficiency", 0.7));
  EXPECT_EQ(frameworks.choose(asked("plain")).framework.reserve.fragmentation, 3.0);
  EXPECT_EQ(frameworks.choose(asked("better")).framework.reserve.fragmentation, 1.1);
  EXPECT_EQ(frameworks.choose(asked("plain", "", "fp32")).framework.efficiency, 0.5);
}

TEST(Frameworks, ACoefficientOfAnUnknownFrameworkOrFieldIsRefused) {
  const auto message = [](const Coefficient& coefficient) -> std::string {
    try {
      two().put(coefficient);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(of_framework("beter", "efficiency", 1.0)),
            "coefficient of framework beter: unknown training framework; did you mean better?");
  EXPECT_EQ(message(of_framework("better", "eficiency", 1.0)),
            "coefficient of framework better: eficiency: unknown field; did you mean efficiency?");
  EXPECT_EQ(message(of_framework("better", "loss.fp32_logits", 1.0)),
            "coefficient of framework better: loss.fp32_logits = 1.0: wrong type or range for this "
            "field");
}

TEST(Frameworks, ANumberIsThatOfTheNearestFrameworkThatSetsIt) {
  EXPECT_EQ(two().number("better", "storage.gradient_bytes"), 2.0);
  EXPECT_EQ(two().number("better", "reserve.fragmentation"), 1.1);
  EXPECT_FALSE(two().number("better", "efficiency"));
  EXPECT_FALSE(two().number("best", "reserve.fragmentation"));
}

using Ids = std::vector<std::string>;

TEST(Frameworks, ALineReachesUpToTheNearestThatSetsTheField) {
  EXPECT_EQ(two().lineage("better", "reserve.fragmentation"), Ids{"better"});
  EXPECT_EQ(two().lineage("better", "storage.gradient_bytes"), (Ids{"plain", "better"}));
  EXPECT_EQ(two().lineage("better", "efficiency"), (Ids{"plain", "better"}));  // nobody sets it
  EXPECT_EQ(two().lineage("plain", "efficiency"), Ids{"plain"});
  EXPECT_EQ(two().lineage("best", "efficiency"), Ids{});
}

TEST(Frameworks, ACoefficientHoldsForThoseInWhoseLineItStands) {
  for (const std::string key : {"reserve.fragmentation", "storage.gradient_bytes", "efficiency"}) {
    Frameworks frameworks = two();
    frameworks.put(of_framework("plain", key, 4.0));
    const bool in_line = two().lineage("better", key).front() == "plain";
    EXPECT_EQ(frameworks.number("better", key) == 4.0, in_line) << key;
  }
}

TEST(Frameworks, MistakesInTheFileAreNamed) {
  const auto one = [](const std::string& fields) {
    return R"({"frameworks": [{"id": "a", "name": "A", "fields": {)" + fields + "}}]}";
  };
  EXPECT_EQ(frameworks_error(one(
                R"("reserve.fragmentatio": {"value": 1, "evidence": "assumed", "source": "s"})")),
            "frameworks.json: framework a: reserve.fragmentatio: unknown field; did you mean "
            "reserve.fragmentation?");
  EXPECT_EQ(
      frameworks_error(
          one(R"("reserve.fragmentation": {"value": "x", "evidence": "assumed", "source": "s"})")),
      "frameworks.json: framework a: reserve.fragmentation = \"x\": wrong type or range for this "
      "field");
  EXPECT_EQ(
      frameworks_error(one(R"("reserve.fragmentation": {"value": 1, "evidence": "assumed"})")),
      "frameworks.json: framework a: reserve.fragmentation: value, evidence and source are all "
      "needed");
  EXPECT_EQ(frameworks_error(R"({"frameworks": [{"id": "a", "like": "b"}]})"),
            "frameworks.json: framework a: like = b: no framework before this one has that id");
  EXPECT_EQ(frameworks_error(R"({"frameworks": [{"id": "a", "rules_of": "b"}]})"),
            "frameworks.json: framework a: rules_of = b: no framework before this one has that id");
  EXPECT_EQ(frameworks_error(R"({"frameworks": [], "rules": [{"when": {}, "set": {}}]})"),
            "frameworks.json: rules 1: a rule needs a condition in \"when\"");
}

TEST(ShippedFrameworks, KnowEveryFrameworkOfTheSchema) {
  const Frameworks frameworks = Frameworks::shipped();
  for (const char* id : {"megatron-lm",
                         "megatron-bridge",
                         "nemo",
                         "megatron-deepspeed",
                         "deepspeed",
                         "fsdp1",
                         "fsdp2",
                         "torchtitan",
                         "llm-foundry",
                         "ddp",
                         "pytorch",
                         "nanotron",
                         "internevo",
                         "litgpt",
                         "maxtext",
                         "jax-toolbox",
                         "levanter",
                         "torchtune",
                         "llm.c",
                         "olmo",
                         "hf-trainer",
                         "hf-trainer-fsdp",
                         "peft",
                         "hf-trainer-deepspeed",
                         "peft-deepspeed",
                         "libtorch",
                         "libtorch-autocast",
                         "other",
                         "accelerate",
                         "trl",
                         "axolotl",
                         "llama-factory",
                         "ms-swift",
                         "unsloth",
                         "composer",
                         "automodel",
                         "olmo-core",
                         "verl",
                         "megatron-fsdp",
                         "primus",
                         "neuronx"}) {
    EXPECT_FALSE(frameworks.choose(asked(id)).facts.empty()) << id;
  }
}

// Tensor ranks that slice linear layers alone, as transformers' plans and AutoTP do.
TEST(ShippedFrameworks, OfHuggingFaceAndDeepSpeedHaveNoSequenceParallelism) {
  for (const char* id : {"hf-trainer", "hf-trainer-fsdp", "hf-trainer-deepspeed", "deepspeed",
                         "accelerate", "trl", "axolotl", "llama-factory", "ms-swift"})
    EXPECT_FALSE(Frameworks::shipped().choose(asked(id)).framework.offers.sequence_parallel) << id;
  for (const char* id : {"megatron-lm", "megatron-bridge", "torchtitan", "maxtext", "nanotron"})
    EXPECT_TRUE(Frameworks::shipped().choose(asked(id)).framework.offers.sequence_parallel) << id;
}

// What a reader of a program's code and documents says that it has; records name both.
//
//   t  tensor ranks    c  context ranks    p  pipelines    1 2 3  ZeRO-1 to 3    h  HSDP
TEST(ShippedFrameworks, OfferWhatTheirProgramsHave) {
  for (const auto& [id, offered] : std::vector<std::pair<const char*, const char*>>{
           {"ddp", "-------"},           {"fsdp1", "----23h"},
           {"fsdp2", "----23h"},         {"torchtitan", "tcp-23h"},
           {"torchtune", "tc--23h"},     {"litgpt", "-----3h"},
           {"llm-foundry", "----23h"},   {"llm.c", "---1---"},
           {"deepspeed", "tcp123h"},     {"megatron-deepspeed", "tcp123-"},
           {"nanotron", "tcp1---"},      {"maxtext", "tcp1-3h"},
           {"levanter", "t----3h"},      {"hf-trainer", "tc--23h"},
           {"accelerate", "tc-123h"},    {"trl", "tc-123h"},
           {"axolotl", "tc-123h"},       {"llama-factory", "tc--23h"},
           {"ms-swift", "tc-123h"},      {"unsloth", "-------"},
           {"composer", "t---23h"},      {"automodel", "tcp-23h"},
           {"olmo-core", "tcp--3h"},     {"verl", "-c--23h"},
           {"megatron-fsdp", "tcp123h"}, {"primus", "tcp123h"},
           {"neuronx", "tcp1---"}}) {
    const sim::FrameworkOffers has = Frameworks::shipped().choose(asked(id)).framework.offers;
    std::string found;
    for (const auto& [letter, is_there] : {std::pair{'t', has.tensor_ranks},
                                           {'c', has.context_ranks},
                                           {'p', has.pipelines},
                                           {'1', has.zero1},
                                           {'2', has.zero2},
                                           {'3', has.zero3},
                                           {'h', has.hsdp}})
      found += is_there ? letter : '-';
    EXPECT_EQ(found, offered) << id;
  }
}

TEST(ShippedFrameworks, AreListedForTheirUsers) {
  const std::string readme = content_of_file(LLMSIM_SOURCE_DIR "/hwdb/README.md");
  for (const std::string& id : Frameworks::shipped().ids())
    EXPECT_NE(readme.find("`" + id + "`"), std::string::npos) << id;
}

TEST(ShippedFrameworks, HaveASourceForEachOffer) {
  const Frameworks frameworks = Frameworks::shipped();
  for (const std::string& id : frameworks.ids()) {
    for (const sim::Fact& found : frameworks.choose(asked(id)).facts) {
      if (found.key.find(".offers.") == std::string::npos) continue;
      EXPECT_FALSE(found.source.empty()) << found.key;
      EXPECT_NE(found.evidence, sim::Evidence::Fitted) << found.key;
    }
  }
}

// Interleaving and stages of different sizes, where there are stages.
TEST(ShippedFrameworks, HaveThePipelinesOfTheirPrograms) {
  const auto offers = [](const char* id) {
    return Frameworks::shipped().choose(asked(id)).framework.offers;
  };
  for (const char* id : {"deepspeed", "megatron-deepspeed", "nanotron"})
    EXPECT_FALSE(offers(id).interleaving) << id;
  for (const char* id : {"megatron-lm", "torchtitan", "automodel", "olmo-core", "neuronx"}) {
    EXPECT_TRUE(offers(id).interleaving) << id;
    EXPECT_TRUE(offers(id).uneven_stages) << id;
  }
  EXPECT_FALSE(offers("maxtext").uneven_stages);
  EXPECT_TRUE(offers("maxtext").interleaving);  // circular: several repeats
  for (const char* id : {"deepspeed", "megatron-deepspeed", "megatron-fsdp", "primus"}) {
    EXPECT_FALSE(offers(id).zero2_in_pipelines) << id;
    EXPECT_FALSE(offers(id).zero3_in_pipelines) << id;
  }
  for (const char* id : {"torchtitan", "automodel", "olmo-core"})
    EXPECT_TRUE(offers(id).zero3_in_pipelines) << id;
}

// Bytes of one parameter and its AdamW states, nothing sharded.
double resident_bytes(const sim::ParameterStorage& s) {
  return s.weight_bytes + s.gradient_bytes + s.main_gradient_bytes + s.master_bytes +
         2 * s.state_bytes;
}

double resident_bytes(const std::string& framework, const std::string& precision) {
  FrameworkQuery query = asked(framework);
  query.precision = precision;
  return resident_bytes(Frameworks::shipped().choose(query).framework.storage);
}

// Megatron Core User Guide, Distributed Optimizer: 20, 18 and 16 bytes per parameter.
TEST(ShippedFrameworks, MegatronKeepsTheDocumentedBytesPerParameter) {
  EXPECT_EQ(resident_bytes("megatron-lm", "fp16"), 20.0);
  EXPECT_EQ(resident_bytes("megatron-lm", "bf16"), 18.0);
  EXPECT_EQ(resident_bytes("megatron-lm", "fp32"), 16.0);
}

// 2 + 2 + 4 + 8, of which all but the weights can be sharded; one that says its weights' format
// trains them themselves, 2 + 2 + 4.
TEST(ShippedFrameworks, AnUnknownFrameworkHasMasterWeightsBesideSixteenBits) {
  FrameworkQuery query = asked("other", "2025-01-01", "bf16");
  const auto storage = [&] { return Frameworks::shipped().choose(query).framework.storage; };
  EXPECT_EQ(storage().weight_bytes, 2.0);
  EXPECT_EQ(resident_bytes(storage()), 16.0);
  query.settings["weight_dtype"] = "bf16";
  EXPECT_EQ(resident_bytes(storage()), 8.0);
}

// Trainers of Hugging Face: DeepSpeed's masters and states under ZeRO-1 and 2, fp32 shards under
// FSDP; alone, Axolotl and SWIFT train 16-bit weights themselves, TRL and LLaMA-Factory fp32.
TEST(ShippedFrameworks, TrainersKeepWhatTheirWrapperKeeps) {
  const auto bytes = [](const char* id, const char* sharding) {
    FrameworkQuery query = asked(id, "2026-08-01", "bf16");
    query.sharding = sharding;
    const sim::ParameterStorage s = Frameworks::shipped().choose(query).framework.storage;
    return std::vector{s.weight_bytes, s.gradient_bytes, s.master_bytes, s.state_bytes};
  };
  for (const char* id : {"trl", "axolotl", "llama-factory", "ms-swift"}) {
    EXPECT_EQ(bytes(id, "zero2"), (std::vector{2.0, 2.0, 4.0, 4.0})) << id;
    EXPECT_EQ(bytes(id, "zero3"), (std::vector{4.0, 4.0, 0.0, 4.0})) << id;
    const bool casts = std::string(id) == "axolotl" || std::string(id) == "ms-swift";
    EXPECT_EQ(bytes(id, "none"),
              casts ? std::vector({2.0, 2.0, 0.0, 2.0}) : std::vector({4.0, 4.0, 0.0, 4.0}))
        << id;
  }
}

// huggingface/trl pull request 5846 of 2026-06-14.
TEST(ShippedFrameworks, TrlsLossIsInChunksSinceJune2026) {
  const auto fused = [](const char* date) {
    return Frameworks::shipped().choose(asked("trl", date)).defaults.strategy.fused_cross_entropy;
  };
  EXPECT_FALSE(fused("2026-06-13"));
  EXPECT_TRUE(fused("2026-06-14"));
}

// 2 + 2 + 4 + 8; the measured 14 are what is left after a step, when the gradients are gone.
TEST(ShippedFrameworks, DeepSpeedKeepsSixteenBytesPerParameterWithGradients) {
  EXPECT_EQ(resident_bytes("deepspeed", "fp16"), 16.0);
  EXPECT_EQ(resident_bytes("megatron-deepspeed", "fp16"), 16.0);
}

TEST(ShippedFrameworks, AutocastOverFp32WeightsKeepsSixteenBytesPerParameter) {
  EXPECT_EQ(resident_bytes("pytorch", "bf16"), 16.0);
  EXPECT_EQ(resident_bytes("fsdp2", "bf16"), 16.0);
}

TEST(ShippedFrameworks, NoFlashAttentionOnV100OrWithAlibi) {
  FrameworkQuery query = asked("pytorch");
  EXPECT_TRUE(Frameworks::shipped().choose(query).defaults.strategy.flash_attention);
  query.architecture = "Volta (sm_70)";
  EXPECT_FALSE(Frameworks::shipped().choose(query).defaults.strategy.flash_attention);
  query.architecture = "Ampere (sm_80)";
  query.position = "alibi";
  EXPECT_FALSE(Frameworks::shipped().choose(query).defaults.strategy.flash_attention);
}

sim::AttentionKernel kernel(const std::string& framework, const std::string& architecture,
                            const std::string& date, const std::string& setting = "") {
  FrameworkQuery query = asked(framework, date);
  query.architecture = architecture;
  if (!setting.empty()) query.settings[setting] = true;
  return Frameworks::shipped().choose(query).framework.attention_kernel;
}

TEST(Frameworks, NoRuleNamesAPublishedGroup) {
  EXPECT_NE(frameworks_error(
                R"({"frameworks": [], "rules": [{"when": {"group": "bloom-tuning"}, "set": {}}]})")
                .find("group"),
            std::string::npos);
}

TEST(Frameworks, TheAttentionKernelFollowsFrameworkDeviceAndDate) {
  using sim::AttentionKernel;
  EXPECT_EQ(kernel("megatron-lm", "Hopper", "2025-01-01"), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel("megatron-lm", "Ampere", "2025-01-01"), AttentionKernel::Flash2);
  EXPECT_EQ(kernel("fsdp2", "Hopper", "2025-01-01"), AttentionKernel::Flash2);
  // From PyTorch 2.11 on, where it is a data centre's device.
  EXPECT_EQ(kernel("fsdp2", "Hopper (sm_90)", "2026-03-23"), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel("pytorch", "Blackwell (sm_100)", "2026-03-23"), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel("pytorch", "Blackwell (sm_120)", "2026-03-23"), AttentionKernel::Flash2);
  EXPECT_EQ(kernel("pytorch", "Ampere (sm_80)", "2026-03-23"), AttentionKernel::Flash2);
  EXPECT_EQ(kernel("fsdp1", "Ampere", "2023-05-01"), AttentionKernel::Flash1);
  EXPECT_EQ(kernel("maxtext", "TPU v5e", ""), AttentionKernel::Splash);
  EXPECT_EQ(kernel("megatron-lm", "Blackwell", "2026-01-01", "deterministic"),
            AttentionKernel::Flash2);
}

// torchtitan pull request 1196 of 2025-05-15.
TEST(Frameworks, TorchtitanCallsCudnnOnBlackwellSinceItsPullRequest) {
  EXPECT_EQ(kernel("torchtitan", "Blackwell (sm_100)", "2025-05-14"), sim::AttentionKernel::Flash2);
  EXPECT_EQ(kernel("torchtitan", "Blackwell (sm_100)", "2025-05-15"), sim::AttentionKernel::Cudnn);
}

// pytorch issue 135431: fixed in the nightly build of 2024-09-30.
TEST(Frameworks, PyTorchOnRocmHadASlowBackwardKernelUntilOctober2024) {
  EXPECT_EQ(kernel("torchtitan", "CDNA2", "2024-09-25"), sim::AttentionKernel::AotritonFirst);
  EXPECT_EQ(kernel("torchtitan", "CDNA2", "2024-10-01"), sim::AttentionKernel::Aotriton);
  EXPECT_EQ(kernel("ddp", "CDNA3", "2024-09-09", "transformer_engine"),
            sim::AttentionKernel::ComposableKernel);
  EXPECT_EQ(kernel("megatron-lm", "CDNA3", "2026-02-02"), sim::AttentionKernel::ComposableKernel);
}

TEST(Frameworks, GemmsOnMi300xAreThoseThatTheLibraryPicksUnlessTheRunTunesThem) {
  FrameworkQuery query = asked("fsdp2");
  query.architecture = "CDNA3 (gfx942)";
  EXPECT_LT(Frameworks::shipped().choose(query).framework.gemm_efficiency, 0.8);
  query.settings["tuned_gemm"] = true;
  EXPECT_EQ(Frameworks::shipped().choose(query).framework.gemm_efficiency, 1.0);
  EXPECT_EQ(Frameworks::shipped().choose(asked("fsdp2")).framework.gemm_efficiency, 1.0);
}

// NVIDIA, Matrix Multiplication Background: from cuBLAS 11 on, tensor cores multiply any shape.
TEST(Frameworks, MisalignedGemmsOfV100BecameFasterWithCublas11) {
  FrameworkQuery query = asked("megatron-lm", "2020-06-01");
  const auto gain = [&] {
    return Frameworks::shipped().choose(query).framework.misaligned_gemm_gain;
  };
  query.architecture = "Volta (sm_70)";
  EXPECT_EQ(gain(), 1.0);
  query.date = "2021-05-01";
  EXPECT_EQ(gain(), 2.5);
  query.architecture = "Ampere (sm_80)";
  EXPECT_EQ(gain(), 1.0);
}

// DeepSpeed runtime/zero/stage3.py: a sub-group of 1e9 elements is flattened and cast at a time.
TEST(Frameworks, DeepSpeedUpdatesShardedWeightsInSubGroups) {
  FrameworkQuery query = asked("deepspeed", "2024-06-01", "bf16");
  query.sharding = "zero3";
  const sim::UpdateBehaviour update = Frameworks::shipped().choose(query).framework.update;
  EXPECT_EQ(update.parameters_at_once, 1e9);
  EXPECT_EQ(update.temporary_bytes, 6.0);
  query.sharding = "zero2";
  EXPECT_EQ(Frameworks::shipped().choose(query).framework.update.parameters_at_once, 0.0);
}

// torch.optim.AdamW where configurations of DeepSpeed name no optimizer; two temporaries of fp32
// before PyTorch 2.1.
TEST(Frameworks, TrainerGivesDeepSpeedAnUnfusedOptimizer) {
  FrameworkQuery query = asked("hf-trainer-deepspeed", "2023-08-01", "bf16");
  query.sharding = "zero2";
  const auto update = [&] { return Frameworks::shipped().choose(query).framework.update; };
  EXPECT_FALSE(update().fused);
  EXPECT_EQ(update().temporary_values, 2.0);
  EXPECT_EQ(update().kept_temporary_bytes, 2.0);
  query.date = "2024-06-01";
  EXPECT_EQ(update().temporary_values, 1.0);
  query.date = "2025-12-01";
  EXPECT_TRUE(update().fused);
  query.framework = "deepspeed";
  query.date = "2024-06-01";
  EXPECT_TRUE(update().fused);
}

// torch.optim.AdamW and optax.adamw: states like their parameters.
TEST(Frameworks, SixteenBitWeightsHaveSixteenBitGradientsAndStates) {
  for (const char* id : {"fsdp2", "ddp", "maxtext"}) {
    FrameworkQuery query = asked(id, "2025-01-01", "bf16");
    query.settings["weight_dtype"] = "bf16";
    const sim::ParameterStorage storage = Frameworks::shipped().choose(query).framework.storage;
    EXPECT_EQ(storage.gradient_bytes, 2.0) << id;
    EXPECT_EQ(storage.state_bytes, 2.0) << id;
  }
}

// What a fit finds stands in coefficients.json, over priors that come from elsewhere.
TEST(Frameworks, NoShippedValueIsFitted) {
  const Frameworks frameworks = Frameworks::shipped();
  for (const std::string& id : frameworks.ids()) {
    for (const char* sharding : {"none", "zero2", "zero3"}) {
      FrameworkQuery query = asked(id, "2024-06-01", "bf16");
      query.sharding = sharding;
      for (const sim::Fact& found : frameworks.choose(query).facts)
        EXPECT_NE(found.evidence, sim::Evidence::Fitted) << found.key;
    }
  }
}

// deepspeedai/DeepSpeed issue 899, pull request 6962.
TEST(Frameworks, DeepSpeedCastsGradientsOnTheHostUntil2025) {
  FrameworkQuery query = asked("deepspeed");
  query.sharding = "zero3";
  const auto casts = [&](const char* date) {
    query.date = date;
    return Frameworks::shipped().choose(query).framework.host_copies.casts_gradients;
  };
  EXPECT_FALSE(casts("2021-03-01"));
  EXPECT_TRUE(casts("2024-05-07"));
  EXPECT_FALSE(casts("2025-02-01"));
  query.sharding = "none";
  EXPECT_FALSE(casts("2024-05-07"));
}

// DeepSpeed runtime/engine.py allreduce_bucket: without ZeRO a bucket is flattened, reduced, copied
// back and freed.
TEST(Frameworks, DeepSpeedsBucketsStayWithZeroAlone) {
  FrameworkQuery query = asked("megatron-deepspeed", "2024-06-01", "fp16");
  const auto buckets = [&](const char* sharding) {
    query.sharding = sharding;
    return Frameworks::shipped().choose(query).framework.reserve.framework;
  };
  EXPECT_EQ(buckets("none"), sim::Bytes(0.0));
  EXPECT_EQ(buckets("zero1"), sim::Bytes(2e9));
}

// stage3.py: one flat buffer of all gradients of a shard since the rewrite of January 2022.
TEST(Frameworks, GradientsOfZero3StayFromStepToStepSince2022) {
  FrameworkQuery query = asked("deepspeed", "2021-06-01", "bf16");
  const auto persist = [&] {
    return Frameworks::shipped().choose(query).framework.gradients.persist;
  };
  query.sharding = "zero3";
  EXPECT_FALSE(persist());
  query.date = "2024-06-01";
  EXPECT_TRUE(persist());
  query.sharding = "zero2";
  EXPECT_FALSE(persist());
}

// 26 public logs of 2023 and later: reserved less lasting over allocated less lasting is 1.17.
TEST(Frameworks, GapsOfAllocatorsAreSmallerFrom2023) {
  for (const char* id : {"megatron-lm", "megatron-deepspeed", "deepspeed", "ddp"}) {
    const auto fragmentation = [&](const char* date) {
      return Frameworks::shipped().choose(asked(id, date)).framework.reserve.fragmentation;
    };
    EXPECT_EQ(fragmentation("2022-06-01"), 1.24) << id;
    EXPECT_EQ(fragmentation("2023-06-01"), 1.17) << id;
  }
}

// NeMo 2 mixed_precision.py bf16_with_fp8_mixed: fp8_params; NeMo 1 has to be told, and its apex
// optimizer keeps 16-bit remainders of fp32 master weights.
TEST(Frameworks, NemoStoresFp8WeightsFromVersion2) {
  FrameworkQuery query = asked("nemo", "2024-07-15", "fp8");
  const auto framework = [&] { return Frameworks::shipped().choose(query).framework; };
  EXPECT_FALSE(framework().low_precision.stores_weights);
  EXPECT_EQ(framework().storage.master_bytes, 2.0);
  query.settings["weight_dtype"] = "fp8";
  EXPECT_TRUE(framework().low_precision.stores_weights);
  query.settings.clear();
  query.date = "2025-01-01";
  EXPECT_TRUE(framework().low_precision.stores_weights);
  EXPECT_EQ(framework().storage.master_bytes, 4.0);
  // A run that keeps 16-bit weights says so.
  query.settings["weight_dtype"] = "bf16";
  EXPECT_FALSE(framework().low_precision.stores_weights);
  EXPECT_EQ(framework().storage.weight_bytes, 2.0);
}

// What a run states is what its framework does, with a fact for each field.
TEST(Frameworks, WhatIsStatedReplacesTheFramework) {
  FrameworkChoice choice;
  choice.framework.id = "x";
  apply_settings({{"gradient_dtype", std::string("fp32")},
                  {"norm_dtype", std::string("fp32")},
                  {"fused_optimizer", false},
                  {"reduce_bucket_size", 1e8}},
                 choice);
  EXPECT_EQ(choice.framework.storage.gradient_bytes, 4.0);
  EXPECT_TRUE(choice.framework.norms_in_fp32);
  EXPECT_FALSE(choice.framework.update.fused);
  EXPECT_EQ(choice.framework.gradients.bucket, 1e8);
  EXPECT_EQ(choice.framework.reserve.framework, sim::Bytes(4e8));  // two buckets of 2 bytes
  for (const sim::Fact& fact : choice.facts)
    EXPECT_EQ(fact.evidence, sim::Evidence::Given) << fact.key;
}

}  // namespace
}  // namespace llmsim::hwdb
