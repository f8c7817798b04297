// The simulator's FLOPs, collectives and parameters of a rank against what a training step executes, call by call.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/library/operator_trace.h"
#include "runtime/model/simulated_run.h"
#include "runtime/model/trainer.h"
#include "sim/base/error.h"
#include "sim/memory/shards.h"
#include "sim/schedule/stage_work.h"
#include "tests/runtime/divided_setup.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

using sim::GroupKind;

// By group and kind: calls and bytes of a step.
using Sent = std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>>;

struct Work {
  std::int64_t products = 0, attention = 0, parameters = 0;
  Sent sent;
};

void add_counts(Sent& sent, GroupKind group, const Communicator* communicator) {
  if (communicator == nullptr) return;
  const CollectiveCounts counts = communicator->counts();
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind].calls == 0) continue;
    auto& [calls, bytes] = sent[{sim::name_of(group), sim::name_of(static_cast<sim::CollectiveKind>(kind))}];
    calls += counts[kind].calls, bytes += counts[kind].bytes;
  }
}

Work executed(const TrainingSetup& setup, int rank) {
  const RankGroups groups = counting_groups(setup.strategy, rank);
  Trainer trainer(setup, groups);
  Work work;
  for (const ParameterUnit* unit : trainer.units()) work.parameters += unit->parameters();
  const auto batches = trainer.next_batches();
  const OperatorTrace trace;
  trainer.step(batches);
  work.products = trace.product_flops(), work.attention = trace.attention_flops();
  for (const GroupKind group : {GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Embedding})
    add_counts(work.sent, group, groups.of(group));
  add_counts(work.sent, GroupKind::Pipeline, groups.backward_pipeline());
  return work;
}

std::int64_t integer(double value) { return std::llround(value); }

Work predicted(const TrainingSetup& setup, int stage) {
  const sim::Run run = simulated_run(setup);
  const auto parts = sim::stage_parts(run.model, run.strategy, stage);
  const sim::StageWork sum = sim::stage_work(run, parts);
  Work work;
  work.products = integer((sum.forward.products + sum.backward.products).value());
  work.attention = integer((sum.forward.attention + sum.backward.attention).value());
  for (const sim::ModelPart& part : parts) work.parameters += integer(sim::rank_parameters(run.model, run.strategy).held(part));
  for (const sim::RepeatedCollective& collective : sum.collectives) {
    auto& [calls, bytes] = work.sent[{sim::name_of(collective.group), sim::name_of(collective.kind)}];
    calls += integer(collective.calls), bytes += integer((collective.calls * collective.message).value());
  }
  return work;
}

void expect_equal(const TrainingSetup& setup, int rank, int stage) {
  const Work actual = executed(setup, rank), expected = predicted(setup, stage);
  const std::string name = sim::text_of(setup.strategy.recompute) + ", stage " + std::to_string(stage);
  EXPECT_EQ(actual.products, expected.products) << name;
  EXPECT_EQ(actual.attention, expected.attention) << name;
  EXPECT_EQ(actual.parameters, expected.parameters) << name;
  EXPECT_EQ(actual.sent, expected.sent) << name;
}

// Family, autocast, flash attention, chunked loss.
class StageWorkOfForms : public testing::TestWithParam<std::tuple<Family, bool, bool, bool, Form>> {};

TEST_P(StageWorkOfForms, IsWhatWasExecuted) {
  const auto& [family, autocast, flash, chunked, form] = GetParam();
  TrainingSetup setup = small_training(family);
  setup.device = c10::kMeta;
  setup.strategy.precision = sim::Precision::Bf16;
  setup.autocast = autocast;
  setup.strategy.flash_attention = flash;
  setup.strategy.fused_cross_entropy = chunked;
  divide(setup, form);
  for (const sim::Recompute& recompute : main_recomputes()) {
    setup.strategy.recompute = recompute;
    for (int stage = 0; stage < form.stages; ++stage) {
      expect_equal(setup, stage * sim::group_stride(setup.strategy, GroupKind::Pipeline) + form.tensor - 1, stage);
    }
  }
}

std::string name_of(const testing::TestParamInfo<StageWorkOfForms::ParamType>& tested) {
  const auto& [family, autocast, flash, chunked, form] = tested.param;
  return std::string(family == Family::Gpt2 ? "gpt2" : "llama") + (autocast ? "_autocast" : "_bf16") +
         (flash ? "_flash" : "_unfused") + (chunked ? "_chunked_" : "_plain_") + form.name;
}

INSTANTIATE_TEST_SUITE_P(All, StageWorkOfForms,
                         testing::Combine(testing::Values(Family::Gpt2, Family::Llama), testing::Bool(), testing::Bool(),
                                          testing::Bool(), testing::ValuesIn(forms())),
                         name_of);

class StageWorkOfLargeModels : public testing::TestWithParam<LargeTraining> {};

TEST_P(StageWorkOfLargeModels, IsWhatWasExecuted) {
  const TrainingSetup setup = setup_of(GetParam());
  for (const int stage : some_stages(GetParam())) expect_equal(setup, 8 * stage + 7, stage);
}

INSTANTIATE_TEST_SUITE_P(All, StageWorkOfLargeModels, testing::ValuesIn(large_trainings()),
                         [](const auto& tested) { return tested.param.name; });

// By hand: with 4 layers of width 64 and 4 heads of 16, t = 32 tokens, f = 128, V = 96, one process and one micro-batch:
// products of a block 2 t (64 * 192 + 64 * 64 + 2 * 64 * 128), scores 2 * 2 * 4 heads * 32 * 32 * 16 whole and half of them
// useful, the head 2 t * 64 * 96; backward twice all of it.
TEST(StageWork, OfOneProcessByHand) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.device = c10::kMeta;
  setup.model.num_layers = 4;
  setup.strategy.global_batch = 1;
  const Work work = executed(setup, 0);
  EXPECT_EQ(work.products, 3 * (4 * 2 * 32 * (64 * 192 + 64 * 64 + 2 * 64 * 128) + 2 * 32 * 64 * 96));
  EXPECT_EQ(work.attention, 3 * 4 * 2 * 4 * 32 * 32 * 16);
  EXPECT_TRUE(work.sent.empty());
}

TEST(Trainer, RefusesATiedTableInShardsOnTwoStages) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.device = c10::kMeta;
  setup.strategy.pipeline_parallel = 2, setup.strategy.data_parallel = 2, setup.strategy.sharding = sim::Sharding::Zero1;
  const RankGroups groups = counting_groups(setup.strategy, 0);
  EXPECT_THROW(Trainer(setup, groups), Error);
}

// The CPU executes the same operators as the meta device.
TEST(StageWork, IsTheSameOnTheCpu) {
  TrainingSetup setup = small_training(Family::Llama);
  for (const sim::Recompute& recompute : main_recomputes()) {
    setup.strategy.recompute = recompute;
    setup.device = c10::kMeta;
    const Work meta = executed(setup, 0);
    setup.device = c10::kCPU;
    const Work cpu = executed(setup, 0);
    EXPECT_EQ(cpu.products, meta.products) << sim::text_of(recompute);
    EXPECT_EQ(cpu.attention, meta.attention) << sim::text_of(recompute);
  }
}

}  // namespace
}  // namespace llmsim::runtime
