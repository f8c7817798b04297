#include "sim/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

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
  query.restriction["recompute"] = {"none"};
  query.restriction["virtual_stages"] = {1};
  query.restriction["sharding"] = {"none"};
  const Plan result = plan(query);
  double best = 1e300;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int pp : {1, 2, 4, 8}) {
      if (8 % (tp * pp) != 0) continue;
      for (int micro = 1; micro <= 64; ++micro) {
        TrainingRun run = query.base;
        run.strategy.tp = tp, run.strategy.pp = pp, run.strategy.dp = 8 / tp / pp;
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
  const auto miss = std::find_if(result.nearest.begin(), result.nearest.end(),
                                 [](const NearestMiss& m) { return m.rule == "out of memory"; });
  ASSERT_NE(miss, result.nearest.end());
  EXPECT_GT(miss->needed, miss->available);
}

TEST(Plan, ShapesThatAreNoneAreNamedEvenWhereNothingFits) {
  PlanQuery query = small_query(2);
  query.base.cluster.device.usable_memory = Bytes(1.0);
  query.base.model.mla =
      Mla{.kv_lora_rank = 0, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128};
  EXPECT_THROW(plan(query), Error);
}

TEST(Plan, ListsRestrictTheSearch) {
  PlanQuery query = small_query(8);
  query.restriction["tp"] = {2};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  for (const Prediction& p : result.plans) EXPECT_EQ(p.run.strategy.tp, 2);
}

TEST(Plan, TriesSchedulesThatAreAskedFor) {
  PlanQuery query = small_query(8);
  query.restriction["pp"] = {4};
  query.restriction["pipeline_schedule"] = {"zb-h1", "zb-v"};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  for (const Prediction& p : result.plans) {
    const Strategy& s = p.run.strategy;
    EXPECT_TRUE(s.pipeline_schedule == PipelineSchedule::ZbH1 ||
                s.pipeline_schedule == PipelineSchedule::ZbV);
    EXPECT_EQ(s.virtual_stages, s.pipeline_schedule == PipelineSchedule::ZbV ? 2 : 1);
    EXPECT_EQ(p.step_time, predict(p.run).step_time);
  }
}

// Over tensor ranks experts may be divided as the rest, or stay whole on more expert ranks than dp
// * cp has.
TEST(Plan, TriesWholeExpertsOverTensorRanks) {
  PlanQuery query = small_query(8);
  query.base.model = small_moe();
  query.restriction["tp"] = {2};
  query.top = 1000;
  const Plan result = plan(query);
  int whole = 0, divided = 0, widest = 0;
  for (const Prediction& p : result.plans) {
    const Strategy& s = p.run.strategy;
    (s.expert_tensor_ranks() == 1 ? whole : divided) += 1;
    EXPECT_TRUE(s.expert_tensor_ranks() == 2 || s.sequence_parallel);
    widest = std::max(widest, s.ep);
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(divided, 0);
  EXPECT_EQ(widest, 8);
  query.base.strategy.etp = 2;
  for (const Prediction& p : plan(query).plans) EXPECT_EQ(p.run.strategy.expert_tensor_ranks(), 2);
}

TEST(Plan, CountsTheEmbeddingAndTheHeadAsLayersWhereThatDividesThem) {
  // Six layers do not divide into four stages; with the two ends they are 1 + 2 + 2 + 1.
  PlanQuery query;
  query.base = small_run(4);
  query.base.model.num_layers = 6;
  query.base.strategy.global_batch = 8;
  query.restriction["pp"] = {4};
  query.restriction["virtual_stages"] = {1};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  EXPECT_TRUE(result.plans.front().run.strategy.embeddings_as_layers);
}

TEST(Plan, TriesExpertRanksWhereTheModelHasExperts) {
  PlanQuery query = small_query(8);
  EXPECT_EQ(plan(query).plans.front().run.strategy.ep, 1);
  query.base.model = small_moe();
  const std::size_t all = plan(query).evaluated;
  query.restriction["ep"] = {4};
  const Plan restricted = plan(query);
  EXPECT_LT(restricted.evaluated, all);
  for (const Prediction& p : restricted.plans) EXPECT_EQ(p.run.strategy.ep, 4);
}

// --- the list against a brute-force enumeration ---

// A text of what the search chooses.
std::string text_of(const Strategy& s) {
  std::string text;
  for (const int part :
       {s.tp, s.pp, s.cp, s.dp, s.micro_batch, s.ep, s.expert_tensor_ranks(),
        s.sequence_parallel ? 1 : 0, s.virtual_stages, static_cast<int>(s.pipeline_schedule),
        s.embeddings_as_layers ? 1 : 0, static_cast<int>(s.sharding), s.shard_size})
    text += std::to_string(part) + " ";
  return text + text_of(s.recompute);
}

bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

// Every strategy of the documented space (search_space.h) that no rule forbids and that fits, by
// plain loops over all numbers.
class BruteForce {
 public:
  explicit BruteForce(const TrainingRun& base) : run_(base), devices_(base.cluster.num_devices) {}

  std::map<std::string, Prediction> fitting() {
    const Strategy base = run_.strategy;
    for (int tp = 1; tp <= devices_; ++tp) {
      for (int pp = 1; pp <= devices_; ++pp) {
        for (int cp = 1; cp <= devices_; ++cp) {
          if (devices_ % (tp * pp * cp) != 0 || !is_power_of_two(cp) ||
              (cp > 1 && run_.model.seq_len / cp < 8192))
            continue;
          run_.strategy = base;
          run_.strategy.tp = tp, run_.strategy.pp = pp, run_.strategy.cp = cp;
          run_.strategy.dp = devices_ / (tp * pp * cp);
          try_batches();
        }
      }
    }
    return std::move(found_);
  }

 private:
  void try_batches() {
    const int experts = run_.model.moe ? run_.model.moe->num_experts : 1;
    for (int micro = 1; micro <= 64; ++micro) {
      for (int ep = 1; ep <= experts; ++ep) {
        if (!is_power_of_two(ep)) continue;
        for (const bool whole : {false, true}) {
          if (whole && (!run_.model.moe || run_.strategy.tp == 1)) continue;
          for (const bool sequence : {false, true}) {
            if (sequence && run_.strategy.tp == 1) continue;
            run_.strategy.micro_batch = micro;
            run_.strategy.ep = ep;
            run_.strategy.etp = whole ? std::optional(1) : std::nullopt;
            run_.strategy.sequence_parallel = sequence;
            try_pipelines();
          }
        }
      }
    }
  }

  void try_pipelines() {
    Strategy& s = run_.strategy;
    for (int v = 1; v <= run_.model.num_layers; ++v) {
      const int chunks = s.pp * v, layers = run_.model.num_layers;
      if (v > 1 && (s.pp == 1 || (layers % chunks != 0 && (layers + 2) % chunks != 0))) continue;
      s.virtual_stages = v;
      s.pipeline_schedule =
          v > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
      s.embeddings_as_layers = chunks > 1 && layers % chunks != 0 && (layers + 2) % chunks == 0;
      try_shardings();
    }
  }

  void try_shardings() {
    Strategy& s = run_.strategy;
    const int ranks = s.dp * s.cp;
    for (const auto sharding :
         {Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp}) {
      if (sharding != Sharding::None && ranks == 1) continue;
      if (sharding > Sharding::Zero1 && s.pp > 1) continue;
      for (int size = 1; size <= ranks; ++size) {
        const bool hybrid = sharding == Sharding::Hsdp;
        if (hybrid ? size == 1 || size == ranks || ranks % size != 0 : size > 1) continue;
        s.sharding = sharding;
        s.shard_size = hybrid ? size : 0;
        for (const char* recompute : {"none", "selective", "every-n=4", "every-n=2", "full"}) {
          s.recompute = *recompute_from(recompute);
          Prediction prediction = predict(run_);
          if (prediction.feasible()) found_.emplace(text_of(s), std::move(prediction));
        }
      }
    }
  }

  TrainingRun run_;
  int devices_;
  std::map<std::string, Prediction> found_;
};

// A missing micro-batch, shard size or recomputation, and prices shared between layouts that differ
// in them, show here.
void expect_complete(PlanQuery query) {
  query.top = 1'000'000;
  const Plan result = plan(query);
  std::map<std::string, Prediction> all = BruteForce(query.base).fitting();
  EXPECT_EQ(result.plans.size(), all.size());
  for (const Prediction& planned : result.plans) {
    const auto found = all.find(text_of(planned.run.strategy));
    ASSERT_NE(found, all.end()) << text_of(planned.run.strategy);
    EXPECT_EQ(planned.step_time, found->second.step_time) << found->first;
    EXPECT_EQ(planned.memory.peak, found->second.memory.peak) << found->first;
    all.erase(found);
  }
  for (const auto& [missing, prediction] : all) ADD_FAILURE() << "not searched: " << missing;
  for (std::size_t i = 1; i < result.plans.size(); ++i)
    EXPECT_LE(result.plans[i - 1].step_time, result.plans[i].step_time);
}

TEST(Plan, SearchesTheWholeSpaceOfADenseModel) {
  PlanQuery query = small_query(8);
  query.base.model.num_layers = 6;  // with both ends eight layers
  expect_complete(query);
}

TEST(Plan, SearchesTheWholeSpaceOfExperts) {
  PlanQuery query = small_query(4);
  query.base.model.num_layers = 2;
  query.base.model.moe =
      Moe{.num_experts = 4, .top_k = 2, .expert_ffn_size = query.base.model.ffn_size};
  query.base.strategy.global_batch = 16;
  expect_complete(query);
}

TEST(Plan, SearchesContextRanksOfLongSequences) {
  PlanQuery query = small_query(4);
  query.base.model.num_layers = 2;
  query.base.model.seq_len = 32768;
  query.base.strategy.global_batch = 4;
  expect_complete(query);
}

}  // namespace
}  // namespace llmsim::sim
