// The questions that most people ask first, and what a practitioner expects of the answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/run_request.h"
#include "sim/plan.h"
#include "sim/search/layout_costs.h"
#include "sim/strategy/framework.h"

namespace llmsim::cli {
namespace {

using enum sim::Sharding;

struct Between {
  int least = 1, most = 1;
  bool has(int value) const { return least <= value && value <= most; }
};

// What is asked, and between what the first plan's numbers lie.
struct Usual {
  const char* name;
  RunOptions asked;
  Between tp, pp, cp, ep;
  std::set<sim::Sharding> sharded;
  const char* reason;
};

RunOptions asked(const char* model, const char* gpus, const char* hardware = "h100_sxm",
                 const char* framework = "megatron-lm") {
  RunOptions options{.model = model};
  options.gpus = gpus, options.hardware = hardware, options.framework = framework;
  return options;
}

RunOptions with_adapters(RunOptions options, const char* precision = "bf16") {
  options.lora = "16", options.strategy["precision"] = precision;
  return options;
}

RunOptions with_length(RunOptions options, const char* seq_len) {
  options.seq_len = seq_len;
  return options;
}

const std::vector<Usual>& usual_questions() {
  static const std::vector<Usual> all = {
      {"llama_8b_on_8",
       asked("llama3-8b", "8"),
       {1, 2},
       {},
       {},
       {},
       {Zero1},
       "its states over eight ranks fit: a pipeline or context ranks are labour for nothing"},
      {"llama_8b_on_64",
       asked("llama3-8b", "64"),
       {1, 2},
       {},
       {},
       {},
       {Zero1},
       "as on 8, with more data ranks"},
      {"llama_8b_on_8_torchtitan",
       asked("llama3-8b", "8", "h100_sxm", "torchtitan"),
       {1, 2},
       {},
       {},
       {},
       {Zero3},
       "FSDP, the program's way to shard"},
      {"llama_8b_on_64_torchtitan",
       asked("llama3-8b", "64", "h100_sxm", "torchtitan"),
       {1, 2},
       {},
       {},
       {},
       {Zero3, Hsdp},
       "FSDP or HSDP"},
      {"llama_8b_trainer",
       asked("llama3-8b", "8", "h100_sxm", "hf-trainer-fsdp"),
       {1, 2},
       {},
       {},
       {},
       {Zero3, Hsdp},
       "the Trainer has FSDP and no pipelines"},
      {"llama_70b_on_64",
       asked("llama-70b", "64"),
       {4, 8},
       {1, 4},
       {},
       {},
       {Zero1},
       "tensor ranks fill a node before there are stages"},
      {"llama_70b_on_256",
       asked("llama-70b", "256"),
       {4, 8},
       {2, 8},
       {},
       {},
       {Zero1},
       "NVIDIA's recipes on H100 have tp 4, pp 4 to 8"},
      {"llama_405b_on_512",
       asked("llama-405b", "512"),
       {8, 8},
       {8, 32},
       {1, 2},
       {},
       {Zero1},
       "tensor ranks of a whole node, stages for the memory"},
      {"llama_405b_on_16384",
       asked("llama-405b", "16384"),
       {8, 8},
       {8, 16},
       {1, 4},
       {},
       {Zero1},
       "Llama 3 was trained with tp 8, pp 16 (arXiv 2407.21783, table 4)"},
      {"mixtral_on_64",
       asked("mixtral-8x7b", "64"),
       {1, 4},
       {1, 4},
       {1, 4},
       {8, 8},
       {Zero1},
       "eight experts over the eight devices of a node, sequences of 32,768 over up to four"},
      {"qwen3_30b_on_8",
       asked("qwen3-30b-a3b", "8"),
       {1, 4},
       {1, 2},
       {},
       {4, 8},
       {None, Zero1, Zero3},
       "experts over the node, or over half of it with two stages; Megatron-FSDP shards what "
       "memory has no room for"},
      {"qwen3_30b_on_64",
       asked("qwen3-30b-a3b", "64"),
       {1, 1},
       {},
       {},
       {8, 16},
       {Zero1},
       "small experts: no tensor ranks, expert ranks over one or two nodes"},
      {"deepseek_v3_on_1024",
       asked("deepseek-v3", "1024"),
       {1, 2},
       {8, 16},
       {},
       {32, 64},
       {Zero1},
       "Megatron-Bridge's recipe for H100 has tp 2, pp 8, ep 64"},
      {"deepseek_v3_on_2048",
       asked("deepseek-v3", "2048"),
       {1, 4},
       {4, 16},
       {},
       {32, 64},
       {Zero1},
       "trained with pp 16, ep 64 (arXiv 2412.19437, section 3.1)"},
      {"deepseek_v3_on_256_gb200",
       asked("deepseek-v3", "256", "gb200"),
       {1, 1},
       {2, 8},
       {},
       {32, 64},
       {Zero1},
       "64 expert ranks fit into one NVLink domain of 72"},
      {"lora_8b_on_8",
       with_adapters(asked("llama3-8b", "8")),
       {},
       {},
       {},
       {},
       {None, Zero1},
       "frozen weights of 15 GiB fit: data ranks alone"},
      {"lora_8b_on_8_peft",
       with_adapters(asked("llama3-8b", "8", "h100_sxm", "peft")),
       {},
       {},
       {},
       {},
       {None, Zero1, Zero2},
       "no pipelines in Hugging Face's Trainer"},
      {"lora_70b_on_8",
       with_adapters(asked("llama-70b", "8")),
       {2, 8},
       {},
       {},
       {},
       {None, Zero1},
       "130 GiB of frozen weights: tensor ranks of the node hold them"},
      {"qlora_8b_on_a_4090",
       with_adapters(asked("llama3-8b", "1", "rtx4090", "peft"), "nf4"),
       {},
       {},
       {},
       {},
       {None},
       "one card"},
      {"llama_8b_at_128k",
       with_length(asked("llama3-8b", "64"), "131072"),
       {1, 8},
       {},
       {4, 32},
       {},
       {Zero1},
       "a sequence of 131,072 tokens is divided over context ranks"},
      {"llama_8b_at_1m",
       with_length(asked("llama3-8b", "256"), "1048576"),
       {2, 8},
       {},
       {16, 64},
       {},
       {Zero1},
       "tensor ranks in the node, context ranks for the rest"},
      {"llama_8b_on_v5p",
       asked("llama3-8b", "64", "tpu_v5p", "maxtext"),
       {1, 4},
       {},
       {},
       {},
       {Zero1, Zero3},
       "no pipelines inside a slice"},
      {"llama_8b_on_v6e",
       asked("llama3-8b", "64", "tpu_v6e", "maxtext"),
       {1, 4},
       {},
       {},
       {},
       {Zero1, Zero3},
       "no pipelines inside a slice"},
      {"llama_70b_on_mi300x",
       asked("llama-70b", "64", "mi300x"),
       {2, 8},
       {},
       {},
       {},
       {Zero1},
       "192 GB a device: no pipeline"},
      {"llama_8b_on_gaudi3",
       asked("llama3-8b", "8", "gaudi3", "deepspeed"),
       {1, 2},
       {},
       {},
       {},
       {Zero1, Zero2, Zero3},
       "ZeRO over a node"},
  };
  return all;
}

class UsualQuestions : public testing::TestWithParam<Usual> {};

// The first row is not beaten: no other is as fast and needs as little, or surely faster; what is
// takes more labour.
void expect_not_beaten(const sim::PlanQuery& query, const sim::Plan& plan) {
  const sim::LayoutCosts costs(query);
  const sim::Prediction& first = plan.plans.front();
  const auto beats = [&](const sim::Prediction& other) {
    return sim::probability_faster(other, first) >= sim::kDecided ||
           (other.step_time <= first.step_time && other.memory.needed() <= first.memory.needed());
  };
  for (std::size_t i = 1; i < plan.plans.size(); ++i) EXPECT_FALSE(beats(plan.plans[i])) << i;
  for (const sim::Prediction& other : plan.dearer) {
    EXPECT_TRUE(beats(other));
    EXPECT_GE(costs.of(other.run.strategy) * other.step_time,
              costs.of(first.run.strategy) * first.step_time);
  }
}

TEST_P(UsualQuestions, AreAnsweredAsPeopleRunThem) {
  static const hwdb::Database facts(":memory:");
  sim::PlanQuery query = query_of(GetParam().asked, facts);
  query.pareto = false, query.threads = 0;
  const sim::Plan plan = sim::plan(query);
  ASSERT_FALSE(plan.plans.empty());
  const sim::Strategy& first = plan.plans.front().run.strategy;
  const Usual& usual = GetParam();
  EXPECT_TRUE(usual.tp.has(first.tp)) << "tp " << first.tp << ": " << usual.reason;
  EXPECT_TRUE(usual.pp.has(first.pp)) << "pp " << first.pp << ": " << usual.reason;
  EXPECT_TRUE(usual.cp.has(first.cp)) << "cp " << first.cp << ": " << usual.reason;
  EXPECT_TRUE(usual.ep.has(first.ep)) << "ep " << first.ep << ": " << usual.reason;
  EXPECT_TRUE(usual.sharded.contains(first.sharding))
      << sim::name_of(first.sharding) << ": " << usual.reason;
  expect_not_beaten(query, plan);
}

class ProgramsPlans : public testing::TestWithParam<const char*> {};

TEST_P(ProgramsPlans, HaveWhatTheProgramHas) {
  static const hwdb::Database facts(":memory:");
  const std::string program = GetParam();
  for (const char* gpus : {"8", "64"}) {
    RunOptions options = asked("llama3-8b", gpus, "h100_sxm", program.c_str());
    // It shards nothing: all states of 8 B parameters are more than an H100 holds.
    if (program == "unsloth") options = with_adapters(options);
    sim::PlanQuery query = query_of(options, facts);
    query.pareto = false, query.threads = 0;
    const sim::Plan plan = sim::plan(query);
    ASSERT_FALSE(plan.plans.empty()) << gpus;
    const sim::Run& first = plan.plans.front().run;
    EXPECT_EQ(sim::beyond_offers(first.framework, first.strategy), std::vector<std::string>{});
  }
}

INSTANTIATE_TEST_SUITE_P(Usual, ProgramsPlans,
                         testing::Values("accelerate", "trl", "axolotl", "llama-factory",
                                         "ms-swift", "unsloth", "composer", "automodel",
                                         "olmo-core", "verl", "megatron-fsdp", "primus", "neuronx",
                                         "levanter", "maxtext", "nanotron"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(Usual, UsualQuestions, testing::ValuesIn(usual_questions()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace llmsim::cli
