#include "sim/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

PlanQuery small_query(int devices) {
  PlanQuery query;
  query.base = small_run(devices);
  query.base.strategy.global_batch = 64;
  return query;
}

TEST(Plan, EveryStrategyIsEitherFeasibleOrRejectedWithAReason) {
  const Plan result = plan(small_query(16));
  std::size_t rejected = 0;
  for (const auto& [rule, count] : result.rejected) rejected += count;
  EXPECT_EQ(result.evaluated, result.feasible + rejected);
  EXPECT_GT(result.feasible, 0u);
}

TEST(Plan, TheTopEqualsPredictionsOfAllStrategiesOneByOne) {
  PlanQuery query = small_query(8);
  query.recompute = {{RecomputeKind::None, 1}};
  query.virtual_stages = {1};
  query.sharding = {Sharding::None};
  const Plan result = plan(query);
  double best = 1e300;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int pp : {1, 2, 4, 8}) {
      if (8 % (tp * pp) != 0) continue;
      for (int micro = 1; micro <= 64; ++micro) {
        TrainingRun run = query.base;
        run.strategy.tensor_parallel = tp, run.strategy.pipeline_parallel = pp, run.strategy.data_parallel = 8 / tp / pp;
        run.strategy.micro_batch = micro;
        for (const bool sequence_parallel : {false, true}) {
          run.strategy.sequence_parallel = sequence_parallel && tp > 1;
          const Prediction p = predict(run);
          if (p.feasible()) best = std::min(best, p.step_time.value());
        }
      }
    }
  }
  EXPECT_DOUBLE_EQ(result.plans.front().step_time.value(), best);
}

TEST(Plan, PlansAreOrderedAndFit) {
  const Plan result = plan(small_query(16));
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    EXPECT_TRUE(result.plans[i].feasible());
    if (i > 0) {
      EXPECT_GE(result.plans[i].step_time, result.plans[i - 1].step_time);
    }
  }
}

TEST(Plan, TheParetoFrontTradesTimeForMemory) {
  const Plan result = plan(small_query(16));
  const std::vector<Prediction>& front = result.pareto;
  ASSERT_GE(front.size(), 2u);
  EXPECT_EQ(front.front().step_time, result.plans.front().step_time);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_GE(front[i].step_time, front[i - 1].step_time);
    EXPECT_LT(front[i].memory.peak, front[i - 1].memory.peak);
  }
}

TEST(Plan, AModelThatFitsNowhereNamesTheNearestMiss) {
  PlanQuery query = small_query(2);
  query.base.cluster.device.usable_memory = 0.1 * GiB;
  const Plan result = plan(query);
  EXPECT_TRUE(result.plans.empty());
  const auto miss =
      std::find_if(result.nearest.begin(), result.nearest.end(), [](const NearestMiss& m) { return m.rule == "out of memory"; });
  ASSERT_NE(miss, result.nearest.end());
  EXPECT_GT(miss->needed, miss->available);
}

TEST(Plan, ShapesThatAreNoneAreNamedEvenWhereNothingFits) {
  PlanQuery query = small_query(2);
  query.base.cluster.device.usable_memory = Bytes(1.0);
  query.base.model.mla = LatentAttention{.kv_lora_rank = 0, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128};
  EXPECT_THROW(plan(query), Error);
}

TEST(Plan, ListsRestrictTheSearch) {
  PlanQuery query = small_query(8);
  query.tensor_parallel = {2};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  for (const Prediction& p : result.plans) EXPECT_EQ(p.run.strategy.tensor_parallel, 2);
}

TEST(Plan, TriesSchedulesThatAreAskedFor) {
  PlanQuery query = small_query(8);
  query.pipeline_parallel = {4};
  query.schedule = {PipelineSchedule::ZbH1, PipelineSchedule::ZbV};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  for (const Prediction& p : result.plans) {
    const Strategy& s = p.run.strategy;
    EXPECT_TRUE(s.schedule == PipelineSchedule::ZbH1 || s.schedule == PipelineSchedule::ZbV);
    EXPECT_EQ(s.virtual_stages, s.schedule == PipelineSchedule::ZbV ? 2 : 1);
    EXPECT_EQ(p.step_time, predict(p.run).step_time);
  }
}

// Over tensor ranks experts may be divided as the rest, or stay whole on more expert ranks than dp * cp has.
TEST(Plan, TriesWholeExpertsOverTensorRanks) {
  PlanQuery query = small_query(8);
  query.base.model = small_mixture();
  query.tensor_parallel = {2};
  query.top = 1000;
  const Plan result = plan(query);
  int whole = 0, divided = 0, widest = 0;
  for (const Prediction& p : result.plans) {
    const Strategy& s = p.run.strategy;
    (s.expert_tensor_ranks() == 1 ? whole : divided) += 1;
    EXPECT_TRUE(s.expert_tensor_ranks() == 2 || s.sequence_parallel);
    widest = std::max(widest, s.expert_parallel);
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(divided, 0);
  EXPECT_EQ(widest, 8);
  query.base.strategy.experts.tensor_parallel = 2;
  for (const Prediction& p : plan(query).plans) EXPECT_EQ(p.run.strategy.expert_tensor_ranks(), 2);
}

TEST(Plan, CountsTheEmbeddingAndTheHeadAsLayersWhereThatDividesThem) {
  // Six layers do not divide into four stages; with the two ends they are 1 + 2 + 2 + 1.
  PlanQuery query;
  query.base = small_run(4);
  query.base.model.num_layers = 6;
  query.base.strategy.global_batch = 8;
  query.pipeline_parallel = {4};
  query.virtual_stages = {1};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  EXPECT_TRUE(result.plans.front().run.strategy.embeddings_as_layers);
}

TEST(Plan, TriesExpertRanksWhereTheModelHasExperts) {
  PlanQuery query = small_query(8);
  EXPECT_EQ(plan(query).plans.front().run.strategy.expert_parallel, 1);
  query.base.model = small_mixture();
  const std::size_t all = plan(query).evaluated;
  query.expert_parallel = {4};
  const Plan restricted = plan(query);
  EXPECT_LT(restricted.evaluated, all);
  for (const Prediction& p : restricted.plans) EXPECT_EQ(p.run.strategy.expert_parallel, 4);
}

}  // namespace
}  // namespace llmsim::sim
