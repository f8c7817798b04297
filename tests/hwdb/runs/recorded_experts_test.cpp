#include "hwdb/runs/run_resolver.h"

#include <gtest/gtest.h>

#include "hwdb/runs/assumptions.h"

namespace llmsim::hwdb {
namespace {

struct Case {
  RunRecord record{};
  sim::Run run{};
  sim::Strategy strategy{};

  sim::Strategy laid_out() {
    Assumptions assume(record, run);
    sim::Strategy s = strategy;
    put(record.training.strategy, s);
    set_expert_ranks(record.training, s, assume);
    return s;
  }
};

TEST(RecordedExperts, AreLaidOutAsTheRunSays) {
  Case c;
  c.strategy.tp = 4;
  c.record.training.strategy["etp"] = 2;
  c.record.training.strategy["moe_dispatch"] = "deepep";
  c.record.training.strategy["moe_imbalance"] = 1.2;
  const sim::Strategy experts = c.laid_out();
  EXPECT_EQ(experts.etp, 2);
  EXPECT_EQ(experts.moe_dispatch, sim::ExpertDispatch::Deduplicated);
  EXPECT_EQ(experts.moe_imbalance, 1.2);
  EXPECT_TRUE(experts.moe_captured);
  c.record.training.strategy["moe_captured"] = false;
  EXPECT_FALSE(c.laid_out().moe_captured);
}

TEST(RecordedExperts, AMeshThatExistsOnlyWithWholeExpertsHasThem) {
  Case c;
  c.strategy.tp = 2, c.strategy.dp = 16, c.strategy.ep = 32;
  EXPECT_EQ(c.laid_out().etp, 1);
  ASSERT_EQ(c.run.facts.size(), 1U);
  EXPECT_EQ(c.run.facts.front().key, "assumed.training.etp");
  c.strategy.ep = 16;
  EXPECT_FALSE(c.laid_out().etp);
  c.strategy.ep = 64;  // fits neither way: the rule that it breaks is told later
  EXPECT_FALSE(c.laid_out().etp);
}

TEST(RecordedExperts, WhatDividesAsTheRestIsNothingOfItsOwn) {
  Case c;
  c.strategy.tp = 2;
  c.record.training.strategy["etp"] = 2;
  EXPECT_FALSE(c.laid_out().etp);
}

}  // namespace
}  // namespace llmsim::hwdb
