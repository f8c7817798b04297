// MoE models: the simulator's bytes, FLOPs and collectives against what a training step takes,
// executes and sends.
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/measure/counted_step.h"
#include "sim/base/error.h"
#include "sim/strategy/mesh.h"
#include "tests/runtime/divided_setup.h"
#include "tests/runtime/experts_setup.h"
#include "tests/runtime/print_counts.h"
#include "tests/runtime/simulated_run.h"
#include "tests/share.h"

namespace llmsim::runtime::experts_test {
namespace {

enum class Formats { Fp32, Bf16, Autocast };

void set_formats(TrainingSetup& setup, Formats formats) {
  setup.strategy.precision = formats == Formats::Fp32 ? sim::Precision::Fp32 : sim::Precision::Bf16;
  setup.autocast = formats == Formats::Autocast;
}

void expect_equal(const TrainingSetup& setup, int rank, int stage, int shard = 0) {
  const sim::RankCounts actual = counted_step(setup, rank),
                        expected = sim::rank_counts(simulated_run(setup), stage, shard);
  const std::string name =
      sim::text_of(setup.strategy.recompute) + ", stage " + std::to_string(stage);
  EXPECT_EQ(actual.held.persistent, expected.held.persistent) << name;
  EXPECT_EQ(actual.held.after_forward, expected.held.after_forward) << name;
  EXPECT_EQ(actual.held.peak, expected.held.peak) << name;
  EXPECT_EQ(actual.forward, expected.forward) << name;
  EXPECT_EQ(actual.backward, expected.backward) << name;
  EXPECT_EQ(actual.parameters, expected.parameters) << name;
  EXPECT_EQ(actual.sent, expected.sent) << name;
}

using Case = std::tuple<bool, MoeForm, Formats>;  // meta device, ...

class MoeOnOneProcess : public testing::TestWithParam<Case> {};

// Routing on the CPU is the router's own: it moves rows between experts, and no bytes.
TEST_P(MoeOnOneProcess, TakesExecutesAndSendsWhatIsSimulated) {
  const auto& [meta, form, formats] = GetParam();
  TrainingSetup setup = small_moe(form);
  setup.device = meta ? c10::kMeta : c10::kCPU;
  set_formats(setup, formats);
  for (const int tokens : {32, 96}) {
    setup.model.seq_len = tokens;
    setup.strategy.micro_batch = tokens / 16,
    setup.strategy.global_batch = 2 * setup.strategy.micro_batch;
    for (const sim::Recompute& recompute :
         tokens == 32 && kPartsOfATest == 1 ? all_recomputes() : main_recomputes()) {
      setup.strategy.recompute = recompute;
      expect_equal(setup, 0, 0);
    }
  }
}

// Ranks, stages and micro-batches; the experts of 4 over expert ranks.
struct DividedMoe {
  std::string name;
  int data = 1, expert = 1, tensor = 1, stages = 1;
  bool sequence_parallel = false;
  sim::Sharding sharding = sim::Sharding::None;
  bool whole_experts = false;  // over tensor ranks
};

std::vector<DividedMoe> divided_moe() {
  using enum sim::Sharding;
  return {{.name = "zero3_4", .data = 4, .sharding = Zero3},
          {.name = "ep_2", .data = 2, .expert = 2},
          {.name = "ep_4", .data = 4, .expert = 4},
          {.name = "ep_2_of_4", .data = 4, .expert = 2},
          {.name = "ep_2_of_4_zero1", .data = 4, .expert = 2, .sharding = Zero1},
          {.name = "ep_2_of_4_zero2", .data = 4, .expert = 2, .sharding = Zero2},
          {.name = "ep_2_of_4_zero3", .data = 4, .expert = 2, .sharding = Zero3},
          {.name = "ep_2_zero3", .data = 2, .expert = 2, .sharding = Zero3},
          {.name = "tp_2", .tensor = 2},
          {.name = "tp_2_sp", .tensor = 2, .sequence_parallel = true},
          {.name = "pp_2", .stages = 2},
          {.name = "pp_2_ep_2", .data = 2, .expert = 2, .stages = 2},
          {.name = "tp_2_sp_pp_2_ep_2_of_4",
           .data = 4,
           .expert = 2,
           .tensor = 2,
           .stages = 2,
           .sequence_parallel = true},
          {.name = "tp_2_sp_whole", .tensor = 2, .sequence_parallel = true, .whole_experts = true},
          {.name = "tp_2_sp_pp_2_ep_2_of_4_zero3_whole",
           .data = 2,
           .expert = 2,
           .tensor = 2,
           .stages = 2,
           .sequence_parallel = true,
           .sharding = Zero3,
           .whole_experts = true}};
}

void divide(TrainingSetup& setup, const DividedMoe& form) {
  setup.model.num_layers = 3;
  setup.model.tied_embeddings = false;
  setup.strategy.dp = form.data, setup.strategy.ep = form.expert;
  setup.strategy.tp = form.tensor, setup.strategy.sequence_parallel = form.sequence_parallel;
  if (form.whole_experts) setup.strategy.etp = 1;
  setup.strategy.pp = form.stages, setup.strategy.sharding = form.sharding;
  setup.strategy.global_batch = 3 * form.data;
}

class MoeOnManyRanks
    : public testing::TestWithParam<std::tuple<bool, MoeForm, Formats, DividedMoe>> {};

// Biases inside experts are not divided over tensor ranks.
bool executes(const MoeForm& form, const DividedMoe& divided) {
  const bool shared_bias = form.family == Family::Gpt2 && form.moe.num_shared_experts > 0;
  return divided.tensor == 1 || !((form.moe.expert_bias && !divided.whole_experts) || shared_bias);
}

TEST_P(MoeOnManyRanks, TakeExecuteAndSendWhatIsSimulated) {
  const auto& [meta, form, formats, divided] = GetParam();
  TrainingSetup setup = small_moe(form);
  setup.device = meta ? c10::kMeta : c10::kCPU;
  setup.balanced_experts = true;
  set_formats(setup, formats);
  divide(setup, divided);
  if (!executes(form, divided)) {
    EXPECT_THROW(counted_step(setup, 0), Error);
    return;
  }
  for (const sim::Recompute& recompute : main_recomputes()) {
    setup.strategy.recompute = recompute;
    for (int stage = 0; stage < divided.stages; ++stage) {
      expect_equal(setup, stage * sim::group_stride(setup.strategy, sim::GroupKind::Pipeline),
                   stage);
    }
  }
}

TEST(Moe, RefusesExpertsOverSomeOfTheTensorRanks) {
  TrainingSetup setup = small_moe(moe_forms().front());
  setup.model.num_kv_heads = 4;
  setup.strategy.tp = 4, setup.strategy.sequence_parallel = true;
  setup.strategy.etp = 2;
  try {
    rank_shape(setup.model, setup.strategy, {});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("etp = 2 (it has 1, or tp = 4)"), std::string::npos)
        << error.what();
  }
}

std::string name_of_divided(const testing::TestParamInfo<MoeOnManyRanks::ParamType>& tested) {
  const auto& [meta, form, formats, divided] = tested.param;
  const char* names[] = {"fp32", "bf16", "autocast"};
  return std::string(meta ? "meta_" : "cpu_") + form.name + "_" + names[static_cast<int>(formats)] +
         "_" + divided.name;
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  const auto& [meta, form, formats] = tested.param;
  const char* names[] = {"fp32", "bf16", "autocast"};
  return std::string(meta ? "meta_" : "cpu_") + form.name + "_" + names[static_cast<int>(formats)];
}

INSTANTIATE_TEST_SUITE_P(Meta, MoeOnOneProcess,
                         testing::Combine(testing::Values(true), testing::ValuesIn(moe_forms()),
                                          testing::Values(Formats::Fp32, Formats::Bf16,
                                                          Formats::Autocast)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Cpu, MoeOnOneProcess,
                         testing::Combine(testing::Values(false), testing::ValuesIn(moe_forms()),
                                          testing::Values(Formats::Fp32)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Meta, MoeOnManyRanks,
                         testing::Combine(testing::Values(true), testing::ValuesIn(moe_forms()),
                                          testing::Values(Formats::Fp32, Formats::Bf16,
                                                          Formats::Autocast),
                                          testing::ValuesIn(divided_moe())),
                         name_of_divided);
INSTANTIATE_TEST_SUITE_P(Cpu, MoeOnManyRanks,
                         testing::Combine(testing::Values(false), testing::ValuesIn(moe_forms()),
                                          testing::Values(Formats::Fp32),
                                          testing::ValuesIn(divided_moe())),
                         name_of_divided);

}  // namespace
}  // namespace llmsim::runtime::experts_test
