#include "sim/search/complete_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "sim/memory/footprint.h"
#include "sim/plan.h"
#include "sim/schedule/step.h"
#include "sim/search/price_table.h"
#include "sim/strategy/validity.h"
#include "tests/catalogue.h"
#include "tests/share.h"
#include "tests/sim/random_query.h"

namespace llmsim::sim {
namespace {

constexpr double kSumRounding = 1e-12;
constexpr unsigned kProblemsOfEach = 32;

template <class Visit>
void for_each_complete(const PlanProblem& problem, CompleteTimes times, const Visit& visit) {
  CompleteSearch search(problem, times);
  for (const LayoutGroup& group : problem.groups) search.search(group, visit);
}

Strategy strategy_of(const PlanProblem& problem, const CompleteStrategy& one) {
  return problem.space.strategy(one.layout, one.pipeline, one.sharding,
                                problem.space.recomputes()[one.recompute]);
}

std::string text_of_fields(const Strategy& strategy) {
  std::string text;
  for (const StrategyField& field : strategy_fields()) {
    if (const std::optional<FieldValue> value = field.get(strategy))
      text += std::string(field.key) + " " + text_of(*value) + ", ";
  }
  return text + text_of(strategy.recompute);
}

// One strategy by itself: the walk through its memory and the events of its pipeline.
void expect_exact(const PlanProblem& problem, PriceTable& runs, const CompleteStrategy& one) {
  const Strategy strategy = strategy_of(problem, one);
  SCOPED_TRACE(text_of_fields(strategy));
  const Run& run = runs.run_of(strategy);
  const LayerPrices prices = layer_prices(run);
  const StepSimulation step(run, prices);
  const Memory memory = memory_footprint(run, prices, step.contents(), MemoryStages::All);
  EXPECT_NEAR(one.peak / memory.peak, 1.0, kSumRounding);
  EXPECT_NEAR(one.needed / memory.needed(), 1.0, kSumRounding);
  EXPECT_EQ(one.fits, memory.fits() && memory.host.fits());
  EXPECT_NEAR(one.time / step.terms().total(), 1.0, kSumRounding);
}

class RandomCompleteSearches : public testing::TestWithParam<unsigned> {};

// What is shared by strategies it does not belong to, or closed forms that do not hold, show here.
TEST_P(RandomCompleteSearches, GiveEachStrategyItsOwnTimeAndMemory) {
  for (unsigned seed = 0; seed < share_of(kProblemsOfEach); ++seed) {
    SCOPED_TRACE(GetParam() * kProblemsOfEach + seed);
    const PlanQuery query = random_query(GetParam() * kProblemsOfEach + seed);
    const PlanProblem problem(query);
    PriceTable runs(problem);
    std::size_t seen = 0;
    for_each_complete(problem, CompleteTimes::OfAll, [&](const CompleteStrategy& one) {
      if (seen++ % 7 == 0) expect_exact(problem, runs, one);
    });
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(CompleteSearch, RandomCompleteSearches, testing::Range(0u, 8u));

TEST(CompleteSearch, VisitsEachStrategyThatKeepsTheRulesOnce) {
  for (const unsigned seed : {3u, 11u, 42u, 77u}) {
    SCOPED_TRACE(seed);
    const PlanQuery query = random_query(seed);
    const PlanProblem problem(query);
    std::multiset<std::string> seen, expected;
    for_each_complete(problem, CompleteTimes::OfFitting, [&](const CompleteStrategy& one) {
      seen.insert(text_of_fields(strategy_of(problem, one)));
      EXPECT_EQ(one.time > Seconds(0.0), one.fits);
    });
    for_each_strategy(problem.base, query.restriction, [&](const Strategy& strategy) {
      if (!broken_rule_name(query.base.model, strategy, problem.base.num_devices))
        expected.insert(text_of_fields(strategy));
    });
    EXPECT_EQ(seen, expected);
  }
}

TEST(CompleteSearch, NothingFitsThatItsNodesCannotHold) {
  PlanQuery query;
  query.base = small_run(8);
  query.base.strategy.offload.optimizer = true;
  const auto fitting = [&](Bytes host_memory) {
    query.base.cluster.host_memory = host_memory;
    const PlanProblem problem(query);
    std::size_t count = 0;
    for_each_complete(problem, CompleteTimes::OfFitting,
                      [&](const CompleteStrategy& one) { count += one.fits ? 1 : 0; });
    return count;
  };
  EXPECT_GT(fitting(Bytes(0.0)), 0u);  // unknown
  EXPECT_EQ(fitting(1.0 * MiB), 0u);
}

// The whole space of a 70B model on 64 devices: the search, which simulates a few hundred, finds
// what is fastest of all that fit.
TEST(LargeSpace, NothingIsFasterThanThePlan) {
  PlanQuery query;
  query.base = small_run(64);
  query.base.model = find_model("llama-3-70b")->model;
  query.base.cluster.device.usable_memory = 80.0 * GiB;
  query.base.strategy.global_batch = 256;
  query.tie = 0.0, query.headroom = 0.0, query.prefer = Preference::Fast;
  query.restriction["sharding"] = {std::string("none"), std::string("zero1")};
  const PlanProblem problem(query);
  std::size_t seen = 0, fitting = 0;
  Seconds best{1e300};
  for_each_complete(problem, CompleteTimes::OfFitting, [&](const CompleteStrategy& one) {
    ++seen;
    if (!one.fits) return;
    ++fitting;
    best = std::min(best, one.time);
  });
  const Plan result = plan(query);
  EXPECT_GT(seen, 100'000u);
  EXPECT_GT(fitting, 10'000u);
  EXPECT_LT(result.priced, fitting / 20);
  EXPECT_NEAR(result.plans.front().step_time / best, 1.0, kSumRounding);
}

}  // namespace
}  // namespace llmsim::sim
