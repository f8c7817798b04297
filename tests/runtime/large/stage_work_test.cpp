// The simulator's FLOPs, collectives and parameters of a rank against what a training step
// executes, call by call.
#include <cstdint>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "runtime/measure/counted_step.h"
#include "runtime/model/trainer.h"
#include "sim/base/error.h"
#include "tests/runtime/divided_setup.h"
#include "tests/runtime/print_counts.h"
#include "tests/runtime/simulated_run.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime::stage_work_test {
namespace {

using sim::GroupKind;

void expect_equal(const TrainingSetup& setup, int rank, int stage, int shard = 0) {
  const sim::RankCounts actual = counted_step(setup, rank),
                        expected = sim::rank_counts(simulated_run(setup), stage, shard);
  const std::string name =
      sim::text_of(setup.strategy.recompute) + ", stage " + std::to_string(stage);
  EXPECT_EQ(actual.forward, expected.forward) << name;
  EXPECT_EQ(actual.backward, expected.backward) << name;
  EXPECT_EQ(actual.parameters, expected.parameters) << name;
  EXPECT_EQ(actual.sent, expected.sent) << name;
}

// Family, autocast, flash attention, chunked loss.
class StageWorkOfForms : public testing::TestWithParam<std::tuple<Family, bool, bool, bool, Form>> {
};

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
      const int first =
          stage * sim::group_stride(setup.strategy, GroupKind::Pipeline) + form.tensor - 1;
      expect_equal(setup, first, stage);
      if (setup.strategy.sharding == sim::Sharding::None) continue;
      const int shard = setup.strategy.shard_ranks() - 1;
      expect_equal(setup, first + shard * sim::group_stride(setup.strategy, GroupKind::Data), stage,
                   shard);
    }
  }
}

std::string name_of(const testing::TestParamInfo<StageWorkOfForms::ParamType>& tested) {
  const auto& [family, autocast, flash, chunked, form] = tested.param;
  return std::string(name_of(family)) + (autocast ? "_autocast" : "_bf16") +
         (flash ? "_flash" : "_unfused") + (chunked ? "_chunked_" : "_plain_") + form.name;
}

const auto kFamilies = testing::Values(Family::Gpt2, Family::Llama, Family::Mla, Family::MlaDirect);
INSTANTIATE_TEST_SUITE_P(All, StageWorkOfForms,
                         testing::Combine(testing::Values(Family::Gpt2, Family::Llama),
                                          testing::Bool(), testing::Bool(), testing::Bool(),
                                          testing::ValuesIn(forms())),
                         name_of);

// The chunked loss is the same whatever the attention.
INSTANTIATE_TEST_SUITE_P(Mla, StageWorkOfForms,
                         testing::Combine(testing::Values(Family::Mla, Family::MlaDirect),
                                          testing::Values(false), testing::Bool(),
                                          testing::Values(false), testing::ValuesIn(forms())),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Sharded, StageWorkOfForms,
                         testing::Combine(kFamilies, testing::Bool(), testing::Values(true),
                                          testing::Values(false),
                                          testing::ValuesIn(sharded_forms())),
                         name_of);

class StageWorkOfLargeModels : public testing::TestWithParam<LargeTraining> {};

TEST_P(StageWorkOfLargeModels, IsWhatWasExecuted) {
  const TrainingSetup setup = setup_of(GetParam());
  for (const int stage : some_stages(GetParam())) expect_equal(setup, 8 * stage + 7, stage);
}

INSTANTIATE_TEST_SUITE_P(All, StageWorkOfLargeModels, testing::ValuesIn(large_trainings()),
                         [](const auto& tested) { return tested.param.name; });

// By hand: with 4 layers of width 64 and 4 heads of 16, t = 32 tokens, f = 128, V = 96, one process
// and one micro-batch: GEMMs of a block 2 t (64 * 192 + 64 * 64 + 2 * 64 * 128), scores 2 * 2 * 4
// heads * 32 * 32 * 16 whole and half of them useful, the head 2 t * 64 * 96; backward twice all of
// it.
TEST(StageWork, OfOneProcessByHand) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.device = c10::kMeta;
  setup.model.num_layers = 4;
  setup.strategy.global_batch = 1;
  const sim::RankCounts work = counted_step(setup, 0);
  const std::int64_t block = 2 * 32 * (64 * 192 + 64 * 64 + 2 * 64 * 128), head = 2 * 32 * 64 * 96;
  const std::int64_t scores = 2 * 4 * 32 * 32 * 16;
  EXPECT_EQ(work.forward,
            (sim::PassFlopCounts{.gemms = 4 * block + head, .attention = 4 * scores}));
  EXPECT_EQ(work.backward,
            (sim::PassFlopCounts{.gemms = 2 * (4 * block + head), .attention = 2 * 4 * scores}));
  EXPECT_TRUE(work.sent.empty());
}

// Made again are all GEMMs of a block but the last, whose output nobody needs, and attention.
TEST(StageWork, OfFullRecomputationByHand) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.device = c10::kMeta;
  setup.strategy.global_batch = 1;
  const sim::PassFlopCounts kept = counted_step(setup, 0).backward;
  setup.strategy.recompute.kind = sim::RecomputeKind::Full;
  const sim::RankCounts work = counted_step(setup, 0);
  const std::int64_t again = 2 * 32 * (64 * 192 + 64 * 64 + 64 * 128),
                     scores = 2 * 4 * 32 * 32 * 16;
  EXPECT_EQ(work.backward, (sim::PassFlopCounts{.gemms = kept.gemms + 2 * again,
                                                .attention = kept.attention + 2 * scores}));
}

TEST(Trainer, RefusesATiedTableInShardsOnTwoStages) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.device = c10::kMeta;
  setup.strategy.pp = 2, setup.strategy.dp = 2, setup.strategy.sharding = sim::Sharding::Zero1;
  const RankGroups groups = counting_groups(setup.strategy, 0);
  EXPECT_THROW(Trainer(setup, groups), Error);
}

// The CPU executes the same operators as the meta device.
TEST(StageWork, IsTheSameOnTheCpu) {
  TrainingSetup setup = small_training(Family::Llama);
  for (const sim::Recompute& recompute : main_recomputes()) {
    setup.strategy.recompute = recompute;
    setup.device = c10::kMeta;
    const sim::RankCounts meta = counted_step(setup, 0);
    setup.device = c10::kCPU;
    const sim::RankCounts cpu = counted_step(setup, 0);
    EXPECT_EQ(cpu.forward, meta.forward) << sim::text_of(recompute);
    EXPECT_EQ(cpu.backward, meta.backward) << sim::text_of(recompute);
  }
}

}  // namespace
}  // namespace llmsim::runtime::stage_work_test
