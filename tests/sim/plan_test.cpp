#include "sim/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "sim/base/error.h"
#include "sim/search/layout_costs.h"
#include "sim/search/ranking.h"
#include "sim/strategy/stages.h"
#include "tests/share.h"
#include "tests/sim/random_query.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr unsigned kProblemsOfEach = 16;

PlanQuery small_query(int devices) {
  PlanQuery query;
  query.base = small_run(devices);
  query.base.strategy.global_batch = 64;
  return query;
}

TEST(Plan, EveryStrategyIsFeasibleOrPrunedOrRejectedWithAReason) {
  const Plan result = plan(small_query(16));
  std::size_t rejected = 0;
  for (const auto& [rule, count] : result.rejected) rejected += count;
  EXPECT_EQ(result.evaluated, result.feasible + result.pruned + rejected);
  EXPECT_GT(result.feasible, 0u);
  EXPECT_GE(result.feasible, result.priced);
  EXPECT_GT(result.pruned, 0u);
}

TEST(Plan, TellsHowFarItIsAndEndsWhenAsked) {
  PlanQuery query = small_query(16);
  std::size_t last = 0;
  query.progress = [&](std::size_t done, std::size_t all) {
    EXPECT_EQ(done, ++last);
    EXPECT_LE(done, all);
    return true;
  };
  const Plan whole = plan(query);
  EXPECT_TRUE(whole.complete);
  query.progress = [](std::size_t done, std::size_t) { return done < 3; };
  const Plan part = plan(query);
  EXPECT_FALSE(part.complete);
  EXPECT_LT(part.evaluated, whole.evaluated);
  for (const Prediction& p : part.plans) EXPECT_EQ(p.step_time, predict(p.run).step_time);
}

TEST(Plan, TheTopEqualsPredictionsOfAllStrategiesOneByOne) {
  PlanQuery query = small_query(8);
  query.tie = 0.0, query.headroom = 0.0;
  query.prefer = Preference::Fast;
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

TEST(Plan, PlansAreOrderedAndFitWithHeadroom) {
  const PlanQuery query = small_query(16);
  const Plan result = plan(query);
  EXPECT_GT(result.headroom, 0.0);
  const Bytes limit = (1.0 - result.headroom) * query.base.cluster.device.usable_memory;
  const LayoutCosts costs(query);
  Seconds least;
  for (const Prediction& plan : result.plans) {
    EXPECT_LE(plan.memory.needed(), limit);
    const Seconds cost = costs.of(plan.run.strategy) * plan.step_time;
    EXPECT_GE(cost, least);
    least = cost;
  }
}

// Three of four runs that need what the limit leaves fit.
// Data ranks turn out to be slower than the search says.
TEST(Plan, WhatIsKnownOfLayoutsIsInEveryPlanAndOrdersThem) {
  PlanQuery query = small_query(16);
  query.prefer = Preference::Fast;
  const auto slower = [](TrainingRun& run) {
    run.framework.efficiency /= 1.0 + 0.1 * run.strategy.dp;
  };
  const Plan plain = plan(query);
  query.laid_out = slower;
  const Plan result = plan(query);
  ASSERT_GT(result.plans.size(), 1u);
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const Prediction& one = result.plans[i];
    TrainingRun run = query.base;
    run.strategy = one.run.strategy;
    slower(run);
    EXPECT_EQ(one.step_time, predict(run).step_time);
    if (i > 0) {
      EXPECT_GE(one.step_time, result.plans[i - 1].step_time);
    }
  }
  EXPECT_EQ(result.evaluated, plain.evaluated);
  for (std::size_t i = 1; i < result.pareto.size(); ++i) {
    EXPECT_GE(result.pareto[i].step_time, result.pareto[i - 1].step_time);
    EXPECT_LT(result.pareto[i].memory.peak, result.pareto[i - 1].memory.peak);
  }
}

TEST(Plan, TheUsualHeadroomIsThatOfLikelyPlans) {
  Memory memory;
  memory.capacity = 80.0 * GiB;
  memory.needed_error = 0.18;
  const double headroom = headroom_for(kLikely, {.needed_memory = 0.18});
  EXPECT_NEAR(headroom, 0.125, 0.001);  // 1 - exp(-0.18 * 0.7407)
  memory.peak = (1.0 - headroom) * memory.capacity;
  EXPECT_NEAR(memory.fit_probability(), kLikely, 1e-9);
}

TEST(Plan, TheParetoFrontTradesTimeForMemory) {
  const Plan result = plan(small_query(16));
  const std::vector<Prediction>& front = result.pareto;
  ASSERT_GE(front.size(), 2u);
  EXPECT_LE(front.front().step_time, result.plans.front().step_time);
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
  query.restriction["pipeline_schedule"] = {"zb-h1", "zb-v", "v-half", "v-min"};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  for (const Prediction& p : result.plans) {
    const Strategy& s = p.run.strategy;
    EXPECT_TRUE(s.pipeline_schedule == PipelineSchedule::ZbH1 || is_v_shaped(s.pipeline_schedule));
    EXPECT_EQ(s.virtual_stages, is_v_shaped(s.pipeline_schedule) ? 2 : 1);
    EXPECT_EQ(p.step_time, predict(p.run).step_time);
  }
}

// 4 GPUs a node: an all-to-all of 4 at most, and with two tensor ranks of 2.
TEST(Plan, ChoosesTheRanksOfAnAllToAllInsideARing) {
  PlanQuery query = small_query(8);
  query.base.model.seq_len = query.base.model.max_positions = 32768;
  query.base.cluster.devices_per_node = 4;
  query.base.cluster.fabric.devices = 4;
  query.base.strategy.cp_scheme = ContextScheme::AllToAllRing;
  query.restriction["cp"] = {4, 8};
  query.restriction["pp"] = {1};
  query.top = 100;
  Plan result = plan(query);
  result.plans.insert(result.plans.end(), result.others.begin(), result.others.end());
  ASSERT_FALSE(result.plans.empty());
  for (const Prediction& p : result.plans) {
    const Strategy& s = p.run.strategy;
    EXPECT_EQ(s.cp_inner, std::min(s.cp, 4 / s.tp));
    EXPECT_EQ(p.step_time, predict(p.run).step_time);
    EXPECT_TRUE(fields_outside(query, p.run).empty());
  }
}

// Over tensor ranks experts may be divided as the rest, or stay whole on more expert ranks than dp
// * cp has.
TEST(Plan, TriesWholeExpertsOverTensorRanks) {
  PlanQuery query = small_query(8);
  query.base.model = small_moe();
  query.restriction["tp"] = {2};
  query.top = 1000;
  Plan result = plan(query);
  result.plans.insert(result.plans.end(), result.others.begin(), result.others.end());
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

TEST(Plan, GivesTheStagesOfTheEndsFewerLayersWhereThatDividesThem) {
  // Six layers do not divide into four stages; with the two ends they are 1 + 2 + 2 + 1.  The head
  // is 2 h V = 32 h^2 FLOPs, a layer 26 h^2.
  PlanQuery query;
  query.base = small_run(4);
  query.base.model.vocab_size = 16384;
  query.base.model.num_layers = 6;
  query.base.strategy.global_batch = 8;
  query.restriction["pp"] = {4};
  query.restriction["virtual_stages"] = {1};
  const Plan result = plan(query);
  ASSERT_FALSE(result.plans.empty());
  const TrainingRun& best = result.plans.front().run;
  std::vector<int> blocks;
  for (const ModelChunk& part : model_chunks(best.model, best.strategy))
    blocks.push_back(part.blocks);
  EXPECT_EQ(blocks, (std::vector{1, 2, 2, 1}));
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

// No one tunes data ranks that each hold all states; where there is one rank there is nothing to
// divide.
TEST(Plan, OfEqualStrategiesThoseThatDivideStatesComeBeforeRanksThatHoldThemWhole) {
  const auto sharded = [](Sharding sharding, int dp) {
    Strategy strategy;
    strategy.sharding = sharding, strategy.dp = dp;
    return strategy;
  };
  for (const Sharding divided : {Sharding::Zero1, Sharding::Zero2}) {
    EXPECT_TRUE(comes_first(sharded(divided, 8), sharded(Sharding::None, 8)));
    EXPECT_FALSE(comes_first(sharded(Sharding::None, 8), sharded(divided, 8)));
    EXPECT_TRUE(comes_first(sharded(Sharding::None, 1), sharded(divided, 1)));
  }
  EXPECT_TRUE(comes_first(sharded(Sharding::None, 8), sharded(Sharding::Zero3, 8)));
}

// --- against every strategy of the space, each predicted ---

// A text of what the search chooses.
std::string text_of(const Strategy& s) {
  std::string text;
  for (const int part :
       {s.tp, s.pp, s.cp, s.dp, s.micro_batch, s.ep, s.expert_tensor_ranks(),
        s.sequence_parallel ? 1 : 0, s.virtual_stages, static_cast<int>(s.pipeline_schedule),
        s.embeddings_as_layers ? 1 : 0, static_cast<int>(s.sharding), s.shard_size,
        static_cast<int>(s.mesh_order)})
    text += std::to_string(part) + " ";
  for (const int layers : s.stage_layers) text += std::to_string(layers) + "-";
  return text + text_of(s.recompute);
}

// What ranking.h says, of a list of all strategies that fit.
class BruteForce {
 public:
  explicit BruteForce(const PlanQuery& query) : query_(query), costs_(query) {
    for_each_strategy(search_base(query), query.restriction,
                      [&](const Strategy& strategy) { predict_one(strategy); });
    std::sort(fitting_.begin(), fitting_.end(), faster);
    add_front();
    const double usual = headroom_for(kLikely, query.base.framework.errors);
    for (const double headroom : {query.headroom.value_or(usual), 0.0}) {
      if (!ranked.empty()) break;
      tight.reset();
      const Bytes limit = (1.0 - headroom) * query.base.cluster.device.usable_memory;
      add_ideas(limit);
      add_tight(limit);
    }
    add_nearly();
    sort_ideas();
  }

  std::size_t strategies = 0;
  std::vector<Prediction> ranked, front;
  std::optional<Prediction> tight, nearly;

 private:
  struct OfIdea {
    Prediction fastest, stands;
  };

  bool by_memory() const { return query_.objective == Objective::Memory; }
  double tie() const { return by_memory() ? 0.0 : query_.tie; }

  // Every strategy of the space through predict(), with the events of all its passes.
  void predict_one(const Strategy& strategy) {
    ++strategies;
    if (broken_rule_name(query_.base.model, strategy, query_.base.cluster.num_devices)) return;
    TrainingRun run = query_.base;
    run.strategy = strategy;
    Prediction prediction = predict(run);
    const Memory& memory = prediction.memory;
    const bool is_near =
        memory.host.fits() && memory.needed() <= (1.0 + kNearlyFits) * memory.capacity;
    if (prediction.feasible()) {
      fitting_.push_back(std::move(prediction));
    } else if (is_near && (!nearly || cheaper_than(prediction, *nearly))) {
      nearly = std::move(prediction);
    }
  }

  static bool faster(const Prediction& one, const Prediction& other) {
    if (one.step_time != other.step_time) return one.step_time < other.step_time;
    if (one.memory.peak != other.memory.peak) return one.memory.peak < other.memory.peak;
    return comes_first(one.run.strategy, other.run.strategy);
  }

  // Whatever is asked for: tight and nearly fitting ones are not ranked by memory.
  bool cheaper_than(const Prediction& one, const Prediction& other) const {
    const double a = priced_time(one), b = priced_time(other);
    if (a != b) return a < b;
    if (one.memory.peak != other.memory.peak) return one.memory.peak < other.memory.peak;
    return comes_first(one.run.strategy, other.run.strategy);
  }
  double priced_time(const Prediction& one) const {
    return (costs_.of(one.run.strategy) * one.step_time).value();
  }
  double cost(const Prediction& one) const {
    return by_memory() ? one.memory.needed().value() : priced_time(one);
  }
  double spare(const Prediction& one) const {
    if (by_memory()) return priced_time(one);
    const double enough = 1.0 - headroom_for(kSurely, query_.base.framework.errors);
    return std::max(one.memory.needed(), enough * query_.base.cluster.device.usable_memory).value();
  }
  bool cheaper(const Prediction& one, const Prediction& other) const {
    if (cost(one) != cost(other)) return cost(one) < cost(other);
    if (spare(one) != spare(other)) return spare(one) < spare(other);
    return comes_first(one.run.strategy, other.run.strategy);
  }
  bool roomier(const Prediction& one, const Prediction& other) const {
    if (spare(one) != spare(other)) return spare(one) < spare(other);
    return cheaper(one, other);
  }

  void add_front() {
    if (!query_.pareto) return;
    Bytes smallest{1e300};
    for (const Prediction& one : fitting_) {
      if (one.memory.peak >= smallest) continue;
      smallest = one.memory.peak;
      front.push_back(one);
    }
  }

  void add_ideas(Bytes limit) {
    std::map<std::string, std::vector<Prediction>> ideas;
    for (const Prediction& one : fitting_)
      if (one.memory.needed() <= limit) ideas[idea_text(one.run.strategy)].push_back(one);
    for (const auto& [name, all] : ideas) {
      OfIdea idea{all.front(), all.front()};
      for (const Prediction& one : all)
        if (cheaper(one, idea.fastest)) idea.fastest = one;
      idea.stands = idea.fastest;
      for (const Prediction& one : all)
        if (cost(one) <= (1.0 + tie()) * cost(idea.fastest) && roomier(one, idea.stands))
          idea.stands = one;
      ranked_ideas_.push_back(idea);
    }
    std::sort(ranked_ideas_.begin(), ranked_ideas_.end(), [&](const auto& one, const auto& other) {
      return cheaper(one.fastest, other.fastest);
    });
    for (const OfIdea& idea : ranked_ideas_)
      if (ranked.size() < static_cast<std::size_t>(query_.top)) ranked.push_back(idea.stands);
  }

  void add_tight(Bytes limit) {
    if (by_memory()) return;
    for (const Prediction& one : fitting_) {
      if (one.memory.needed() > limit && (!tight || cheaper_than(one, *tight))) tight = one;
    }
    if (tight && !ranked_ideas_.empty() &&
        priced_time(*tight) > priced_time(ranked_ideas_.front().fastest))
      tight.reset();
  }

  // None where something that fits is as fast, or nothing does.
  void add_nearly() {
    const bool none = by_memory() || (ranked_ideas_.empty() && !tight);
    if (none ||
        (nearly && !ranked_ideas_.empty() &&
         priced_time(*nearly) > priced_time(ranked_ideas_.front().fastest)) ||
        (nearly && tight && priced_time(*nearly) > priced_time(*tight)))
      nearly.reset();
  }

  void sort_ideas() {
    std::sort(ranked.begin(), ranked.end(),
              [&](const Prediction& one, const Prediction& other) { return cheaper(one, other); });
  }

  static std::string idea_text(const Strategy& s) {
    const auto schedule = s.pipeline_schedule == PipelineSchedule::Interleaved
                              ? PipelineSchedule::OneForwardOneBackward
                              : s.pipeline_schedule;
    std::string text = std::string(name_of(schedule)) + name_of(s.sharding);
    for (const int part : {s.tp, s.pp, s.cp, s.ep, s.expert_tensor_ranks()})
      text += " " + std::to_string(part);
    return text;
  }

  const PlanQuery& query_;
  LayoutCosts costs_;
  std::vector<Prediction> fitting_;
  std::vector<OfIdea> ranked_ideas_;
};

void expect_equal(const std::vector<Prediction>& planned, const std::vector<Prediction>& all,
                  const std::string& what) {
  ASSERT_EQ(planned.size(), all.size()) << what;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    ASSERT_EQ(text_of(planned[i].run.strategy), text_of(all[i].run.strategy)) << what << " " << i;
    ASSERT_EQ(planned[i].step_time, all[i].step_time) << what << " " << i;
    ASSERT_EQ(planned[i].memory.peak, all[i].memory.peak) << what << " " << i;
  }
}

// Plans and others, which are `ranked` without those that a faster plan makes needless.
void expect_ranked(const Plan& result, const BruteForce& all, Objective objective) {
  std::vector<Prediction> plans, others;
  for (const Prediction& one : all.ranked) {
    const bool needless = std::any_of(plans.begin(), plans.end(), [&](const Prediction& plan) {
      Idea same = idea_of(one.run.strategy);
      same.sharding = plan.run.strategy.sharding;
      const double time = one.step_time / plan.step_time,
                   needed = one.memory.needed() / plan.memory.needed();
      return (time > 1.0 + kClearlySlower && needed >= 1.0) ||
             (std::abs(time - 1.0) <= 1e-9 && std::abs(needed - 1.0) <= 1e-9 &&
              same == idea_of(plan.run.strategy));
    });
    (needless ? others : plans).push_back(one);
  }
  std::vector<Prediction> dearer;
  for (std::size_t i = 1; i < plans.size();) {
    const bool surely = objective != Objective::Memory &&
                        probability_faster(plans[i], plans[0]) >= kDecided,
               beats = surely || (plans[i].step_time <= plans[0].step_time &&
                                  plans[i].memory.needed() <= plans[0].memory.needed());
    if (!beats) {
      ++i;
      continue;
    }
    dearer.push_back(plans[i]);
    plans.erase(plans.begin() + static_cast<std::ptrdiff_t>(i));
  }
  expect_equal(result.plans, plans, "plan");
  expect_equal(result.dearer, dearer, "dearer");
  expect_equal(result.others, others, "other");
}

void expect_exhaustive(const PlanQuery& query) {
  const Plan result = plan(query);
  const BruteForce all(query);
  std::size_t rejected = 0;
  for (const auto& [rule, count] : result.rejected) rejected += count;
  EXPECT_EQ(result.evaluated, all.strategies);
  EXPECT_EQ(result.evaluated, result.feasible + result.pruned + rejected);
  EXPECT_EQ(fits_anywhere(query), !all.ranked.empty());
  expect_ranked(result, all, query.objective);
  expect_equal(result.pareto, all.front, "front");
  ASSERT_EQ(result.tight.has_value(), all.tight.has_value());
  if (all.tight) expect_equal({*result.tight}, {*all.tight}, "tight");
  ASSERT_EQ(result.nearly_fits.has_value(), all.nearly.has_value());
  if (all.nearly) expect_equal({*result.nearly_fits}, {*all.nearly}, "nearly fits");
}

// Two blocks on two stages, two micro-batches of 16 sequences of 8,192 tokens: activations of 268
// MB go from stage to stage and back, gradients of 13 million parameters between data ranks.
TEST(Plan, PutsPipelinesInsideNodesWhereThatIsFaster) {
  PlanQuery query;
  query.base = small_run(4);
  query.base.cluster.devices_per_node = query.base.cluster.fabric.devices = 2;
  query.base.cluster.network.node_bandwidth = 0.5 * GBps;
  query.base.framework.offers.mesh_order = true;
  query.base.model.num_layers = 2, query.base.model.seq_len = 8192;
  query.base.model.vocab_size = 64;
  query.base.strategy.global_batch = 64;
  query.restriction = {
      {"pp", {2}}, {"dp", {2}}, {"micro_batch", {16}}, {"sharding", {std::string("none")}}};
  expect_exhaustive(query);
  const Plan result = plan(query);
  EXPECT_EQ(result.plans[0].run.strategy.mesh_order, MeshOrder::DataLast);
  query.restriction["mesh_order"] = {std::string("tp-cp-ep-dp-pp")};
  const Plan usual = plan(query);
  EXPECT_EQ(usual.plans[0].run.strategy.mesh_order, MeshOrder::PipelineLast);
  EXPECT_LT(usual.evaluated, result.evaluated);
  EXPECT_GT(usual.plans[0].step_time, result.plans[0].step_time);
}

// Two stages of one chunk or two; other numbers of stages break the rule.
TEST(Plan, KeepsLayersThatWereDealtByHand) {
  PlanQuery query;
  query.base = small_run(4);
  query.restriction["recompute"] = {std::string("none")};
  for (const std::vector<int>& layers : {std::vector{3, 5}, std::vector{1, 3, 1, 3}}) {
    query.base.strategy.stage_layers = layers;
    expect_exhaustive(query);
    const Plan result = plan(query);
    ASSERT_FALSE(result.plans.empty());
    EXPECT_EQ(result.plans[0].run.strategy.stage_layers, layers);
  }
}

class RandomPlans : public testing::TestWithParam<unsigned> {};

// A bound that is too high, a price that is shared by layouts it does not belong to, or an order
// that depends on the way of the search, shows here.
TEST_P(RandomPlans, AreThoseOfAnExhaustiveSearch) {
  for (unsigned seed = 0; seed < share_of(kProblemsOfEach); ++seed) {
    SCOPED_TRACE(GetParam() * kProblemsOfEach + seed);
    expect_exhaustive(random_query(GetParam() * kProblemsOfEach + seed));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Plan, RandomPlans, testing::Range(0u, 16u));

}  // namespace
}  // namespace llmsim::sim
