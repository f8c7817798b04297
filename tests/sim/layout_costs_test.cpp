// What layouts cost beside their predicted time, and how sure it is which of two is faster.
#include "sim/search/layout_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sim/base/uncertainty.h"
#include "tests/sim/random_query.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

double cost_of(const std::string& key) {
  for (const Labour& labour : labours())
    if (labour.key == key) return labour.cost;
  ADD_FAILURE() << key;
  return 0.0;
}

PlanQuery query_without_errors() {
  PlanQuery query;
  query.base = small_run(64);
  RatioErrors& errors = query.base.framework.ratios;
  errors.micro_batch.error = errors.sharded_parameters.error = 0.0;
  return query;
}

TEST(LayoutTraits, AreDoublingsAndSwitches) {
  Strategy s;
  s.tp = 8, s.pp = 4, s.cp = 2, s.ep = 16, s.micro_batch = 2, s.virtual_stages = 5;
  s.sharding = Sharding::Zero3;
  s.recompute.kind = RecomputeKind::Full;
  EXPECT_EQ(traits_of(s), (LayoutTraits{3.0, 2.0, 1.0, 4.0, 1.0, 1.0, 1.0, std::log2(5.0)}));
  s.recompute.kind = RecomputeKind::Selective;
  EXPECT_EQ(trait_of(LayoutTrait::Recomputation, s), 0.5);
  EXPECT_EQ(traits_of({}), LayoutTraits{});
}

// Two doublings with a bias of 3 % and an error of 4 % each, and runs of 3 %.
TEST(RatioErrors, AddInSquares) {
  RatioErrors errors;
  errors.tensor_ranks = {.bias = 0.03, .error = 0.04};
  errors.run = 0.03;
  Strategy one, other;
  other.tp = 4;
  const LayoutTraits a = traits_of(one), b = traits_of(other);
  EXPECT_DOUBLE_EQ(errors.bias_of(b), 0.06);
  EXPECT_DOUBLE_EQ(errors.error_between(a, b), std::sqrt(2.0 * 0.0009 + 0.0064));
  // As fast as predicted, the one with tensor ranks will be 6 % slower.
  EXPECT_NEAR(probability_faster(errors, 0.0, a, b),
              student_probability(0.06 / errors.error_between(a, b)), 1e-12);
  EXPECT_NEAR(probability_faster(errors, 0.1, a, b) + probability_faster(errors, -0.1, b, a), 1.0,
              1e-12);
  EXPECT_DOUBLE_EQ(probability_faster(errors, 0.0, b, b), 0.5);
}

TEST(LayoutCosts, AddUpWhatALayoutTakes) {
  PlanQuery query = query_without_errors();
  query.base.model.num_layers = 12;
  const LayoutCosts costs(query);
  Strategy s;
  EXPECT_EQ(costs.of(s), 1.0);
  s.tp = 4, s.sequence_parallel = true;
  EXPECT_NEAR(std::log(costs.of(s)), 2.0 * cost_of("tensor_ranks"), 1e-12);
  s.sequence_parallel = false;
  EXPECT_NEAR(std::log(costs.of(s)), 2.0 * cost_of("tensor_ranks") + cost_of("whole_sequences"),
              1e-12);
  s = {};
  s.pp = 4;
  EXPECT_NEAR(std::log(costs.of(s)), cost_of("stages"), 1e-12);
  s.pp = 5;
  EXPECT_NEAR(std::log(costs.of(s)), cost_of("stages") + cost_of("uneven_stages"), 1e-12);
  s.pp = 7, s.embeddings_as_layers = true;  // 14 layers with the ends
  EXPECT_NEAR(std::log(costs.of(s)), cost_of("stages") + cost_of("stages_with_ends"), 1e-12);
  s = {};
  s.pp = 2, s.stage_layers = {7, 5};
  EXPECT_NEAR(std::log(costs.of(s)), cost_of("stages") + cost_of("uneven_stages"), 1e-12);
  s = {};
  s.dp = 8;
  EXPECT_NEAR(std::log(costs.of(s)), cost_of("whole_states"), 1e-12);
  s.sharding = Sharding::Zero1;
  EXPECT_EQ(costs.of(s), 1.0);
  s.sharding = Sharding::Hsdp;
  EXPECT_NEAR(std::log(costs.of(s)), cost_of("sharded_parameters"), 1e-12);
}

TEST(LayoutCosts, OfContextAndExpertsDependOnTheProblem) {
  PlanQuery query = query_without_errors();
  Strategy s;
  s.cp = 2, s.sharding = Sharding::Zero1;
  query.base.model.seq_len = 8192;
  EXPECT_NEAR(std::log(LayoutCosts(query).of(s)),
              cost_of("context_ranks") + cost_of("short_context"), 1e-12);
  query.base.model.seq_len = 131072;
  EXPECT_NEAR(std::log(LayoutCosts(query).of(s)), cost_of("context_ranks"), 1e-12);
  s = {};
  s.dp = 16, s.ep = 16, s.sharding = Sharding::Zero1;
  EXPECT_NEAR(std::log(LayoutCosts(query).of(s)),
              cost_of("experts_beyond_domain") + cost_of("domains_of_experts"), 1e-12);
  s.ep = 8;
  EXPECT_EQ(LayoutCosts(query).of(s), 1.0);
}

// Of many micro-batches the search takes the one whose prediction is too good: e for each doubling;
// likewise of sharded parameters.
TEST(LayoutCosts, CountTheErrorOfLargerMicroBatches) {
  PlanQuery query = query_without_errors();
  query.base.framework.ratios.micro_batch.error = 0.06;
  query.base.framework.ratios.tensor_ranks = {.bias = 0.04, .error = 0.5};
  Strategy s;
  s.micro_batch = 8;
  EXPECT_NEAR(std::log(LayoutCosts(query).of(s)), 3.0 * 0.06, 1e-12);
  query.base.framework.ratios.sharded_parameters.error = 0.13;
  s.dp = 2, s.sharding = Sharding::Zero3;
  EXPECT_NEAR(std::log(LayoutCosts(query).of(s)), 3.0 * 0.06 + 0.13 + cost_of("sharded_parameters"),
              1e-12);
  s = {};
  s.tp = 2, s.sequence_parallel = true;
  EXPECT_NEAR(std::log(LayoutCosts(query).of(s)), 0.04 + cost_of("tensor_ranks"), 1e-12);
}

TEST(LayoutCosts, AreNothingWhereTheFastestOrTheSmallestIsAskedFor) {
  PlanQuery query = query_without_errors();
  Strategy s;
  s.pp = 4, s.virtual_stages = 3, s.micro_batch = 16;
  EXPECT_GT(LayoutCosts(query).of(s), 1.0);
  query.objective = Objective::Memory;
  EXPECT_EQ(LayoutCosts(query).of(s), 1.0);
  query.objective = Objective::Throughput, query.prefer = Preference::Fast;
  EXPECT_EQ(LayoutCosts(query).of(s), 1.0);
}

// The factors of the levels are those of the whole, and never less than what is said to be left.
TEST(LayoutCosts, OfLevelsMultiply) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const PlanQuery query = random_query(seed);
    const LayoutCosts costs(query);
    const SearchBase base = search_base(query);
    for_each_strategy(base, query.restriction, [&](const Strategy& s) {
      const double layout = costs.of(SearchLevel::Layout, s),
                   pipeline = costs.of(SearchLevel::Pipeline, s),
                   sharding = costs.of(SearchLevel::Sharding, s),
                   recompute = costs.of(SearchLevel::Recompute, s);
      ASSERT_NEAR(layout * pipeline * sharding * recompute / costs.of(s), 1.0, 1e-12);
      ASSERT_GE(recompute * 1.0000001, costs.least_after(SearchLevel::Sharding));
      ASSERT_GE(sharding * recompute * 1.0000001, costs.least_after(SearchLevel::Pipeline));
      ASSERT_GE(pipeline * sharding * recompute * 1.0000001,
                costs.least_after(SearchLevel::Layout));
    });
  }
}

}  // namespace
}  // namespace llmsim::sim
