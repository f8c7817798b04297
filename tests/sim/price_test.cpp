#include "sim/cost/price.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "tests/share.h"
#include "tests/sim/random_run.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Every number of a price.
std::vector<double> numbers_of(const PassPrice& p) {
  std::vector<double> numbers{p.gemm.value(),       p.weight_gradients.value(),
                              p.attention.value(),  p.memory_bound.value(),
                              p.collective.value(), p.collective_exposed.value(),
                              p.context.value(),    p.expert.value(),
                              p.contention.value(), p.flops.value()};
  for (const LaunchTally* tally : {&p.launches, &p.ragged_launches})
    numbers.insert(numbers.end(), {tally->kernels, tally->low_precision_gemms});
  for (const CollectiveTallies* tallies : {&p.tensor_collectives, &p.context_collectives,
                                           &p.expert_collectives, &p.expert_tensor_collectives}) {
    for (const CollectiveTally& tally : *tallies)
      numbers.insert(numbers.end(), {tally.count, tally.message.value(), tally.time.value()});
  }
  return numbers;
}

// Each of its numbers is another.
PassPrice distinct_price() {
  PassPrice price{.gemm = Seconds(1.0),
                  .weight_gradients = Seconds(2.0),
                  .attention = Seconds(3.0),
                  .memory_bound = Seconds(4.0),
                  .collective = Seconds(5.0),
                  .collective_exposed = Seconds(6.0),
                  .context = Seconds(7.0),
                  .expert = Seconds(8.0),
                  .contention = Seconds(9.0),
                  .launches = {10.0, 11.0},
                  .ragged_launches = {12.0, 13.0},
                  .flops = Flops(14.0)};
  double next = 15.0;
  for (CollectiveTallies* tallies : {&price.tensor_collectives, &price.context_collectives,
                                     &price.expert_collectives, &price.expert_tensor_collectives}) {
    for (CollectiveTally& tally : *tallies) {
      tally = {next, Bytes(next + 1.0), Seconds(next + 2.0)};
      next += 3.0;
    }
  }
  return price;
}

TEST(PassPrice, IsAddedTermByTerm) {
  PassPrice sum = distinct_price();
  sum.add(distinct_price(), 3.0);
  const std::vector<double> one = numbers_of(distinct_price()), four = numbers_of(sum);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(four[i], 4.0 * one[i]) << i;
}

TEST(PassPrice, TotalsAreSumsOfTheirTerms) {
  EXPECT_EQ(distinct_price().compute(), Seconds(1.0 + 3.0 + 4.0));
  EXPECT_EQ(distinct_price().total(), Seconds(8.0 + 6.0 + 7.0 + 8.0 + 9.0));
}

// Of the times of operators and of their messages.
void expect_sum(const PassPrice& pass, const std::vector<PricedOperator>& operators) {
  Seconds time, messages;
  for (const PricedOperator& op : operators) time += op.time, messages += op.message_time;
  EXPECT_NEAR(time.value(), pass.total().value(), 1e-12 * pass.total().value());
  Seconds all;
  for (const CollectiveTallies* tallies :
       {&pass.tensor_collectives, &pass.context_collectives, &pass.expert_collectives,
        &pass.expert_tensor_collectives})
    all += time_of(*tallies);
  EXPECT_NEAR(messages.value(), all.value(), 1e-12 * all.value());
}

void expect_sums(const BlockPrice& block) {
  expect_sum(block.forward, block.operators->forward);
  expect_sum(block.recompute, block.operators->recompute);
  expect_sum(block.backward, block.operators->backward);
}

TEST(OperatorPrices, AddUpToThePassesOfEveryLayer) {
  for (unsigned seed = 0; seed < share_of(800) && !testing::Test::HasFailure(); ++seed) {
    std::optional<TrainingRun> run = random_run(seed);
    if (!run) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    if (seed % 3 == 0) run->model.sliding_window = 128, run->model.sliding_window_interval = 2;
    const LayerPrices prices = layers_with_operators(*run);
    for (const BlockPrice& block : prices.blocks) expect_sums(block);
    for (const BlockPrice& block : prices.whole_blocks) expect_sums(block);
    expect_sums(prices.embedding);
    expect_sums(prices.head);
  }
}

// A MoE layer of which two expert ranks send each other half of the rows.
TrainingRun expert_run() {
  TrainingRun run = small_run(2);
  run.model = small_moe();
  run.strategy.ep = 2;
  return run;
}

// Nothing is lost by overlap on this device: dispatch and combine of a pass hide behind the other
// pass, as far as that is long enough.
TEST(MoeOverlap, EachPassHidesTheAllToAllsOfTheOther) {
  TrainingRun run = expert_run();
  const BlockPrice shown = layer_prices(run).blocks[0];
  ASSERT_GT(shown.forward.expert, Seconds(0.0));
  run.strategy.moe_overlap = true;
  const BlockPrice hidden = layers_with_operators(run).blocks[0];
  const auto rest = [](Seconds sent, Seconds work) { return std::max(Seconds(0.0), sent - work); };
  EXPECT_DOUBLE_EQ(hidden.forward.expert.value(),
                   rest(shown.forward.expert, shown.backward.compute()).value());
  EXPECT_DOUBLE_EQ(hidden.backward.expert.value(),
                   rest(shown.backward.expert, shown.forward.compute()).value());
  EXPECT_LT(hidden.forward.expert, shown.forward.expert);
  expect_sums(hidden);  // of each operator as much less
}

// A quarter of the units: while all-to-alls of one pass take t, the other pass loses t / 4.
TEST(MoeOverlap, TheOtherPassIsSlowedDown) {
  TrainingRun run = expert_run();
  run.cluster.fabric.device_bandwidth = run.cluster.fabric.pair_bandwidth = 1.0 * TBps;
  run.cluster.device.compute_units = 64;
  run.cluster.device.achieved.collective_units = 16.0;
  run.cluster.device.achieved.collective_unit_bandwidth = 1.0 * GBps;
  const BlockPrice shown = layer_prices(run).blocks[0];
  run.strategy.moe_overlap = true;
  const BlockPrice hidden = layer_prices(run).blocks[0];
  ASSERT_EQ(hidden.forward.expert, Seconds(0.0));
  EXPECT_NEAR(hidden.backward.contention / (shown.forward.expert / 4.0), 1.0, 1e-9);
  EXPECT_NEAR(hidden.forward.contention / (shown.backward.expert / 4.0), 1.0, 1e-9);
}

// Allocations that a router sizes are filled by kernels that wait for it too.
TEST(Determinism, FillsOfRaggedOperatorsAreRagged) {
  TrainingRun run = small_run();
  run.framework.determinism.fills_new_tensors = true;
  Operator op = gemm("gemm", 1, 1000, 1000, 1000, DType::Bf16, DType::Bf16);
  const auto ragged = [&] {
    return OperatorPricer(run).price({op}, false).ragged_launches.kernels;
  };
  EXPECT_EQ(ragged(), 0.0);
  op.ragged = true;
  EXPECT_EQ(ragged(), 2.0);
}

TEST(PricedOperator, AllToAllsAreCollectivesOfExpertRanks) {
  PricedOperator op;
  const auto is_one = [&](OperatorKind kind, GroupKind group) {
    op.kind = kind, op.group = group;
    return op.is_all_to_all();
  };
  EXPECT_TRUE(is_one(OperatorKind::Collective, GroupKind::Expert));
  EXPECT_TRUE(is_one(OperatorKind::Collective, GroupKind::ExpertTensor));
  EXPECT_FALSE(is_one(OperatorKind::Collective, GroupKind::Tensor));
  EXPECT_FALSE(is_one(OperatorKind::Gemm, GroupKind::Expert));
}

}  // namespace
}  // namespace llmsim::sim
