#include "hwdb/recorded_experts.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

struct Case {
  RunRecord record{};
  sim::Run run{};
  sim::Strategy strategy{};

  sim::ExpertStrategy experts() {
    Assumptions assume(record, run);
    sim::Strategy s = strategy;
    put(record.training.strategy, s);
    set_expert_ranks(record.training, s, assume);
    return s.experts;
  }
};

TEST(RecordedExperts, AreLaidOutAsTheRunSays) {
  Case c;
  c.strategy.tensor_parallel = 4;
  c.record.training.strategy["etp"] = 2;
  c.record.training.strategy["moe_dispatch"] = "deepep";
  c.record.training.strategy["moe_imbalance"] = 1.2;
  const sim::ExpertStrategy experts = c.experts();
  EXPECT_EQ(experts.tensor_parallel, 2);
  EXPECT_EQ(experts.dispatch, sim::ExpertDispatch::Deduplicated);
  EXPECT_EQ(experts.imbalance, 1.2);
  EXPECT_TRUE(experts.captured);
  c.record.training.strategy["moe_captured"] = false;
  EXPECT_FALSE(c.experts().captured);
}

TEST(RecordedExperts, AMeshThatExistsOnlyWithWholeExpertsHasThem) {
  Case c;
  c.strategy.tensor_parallel = 2, c.strategy.data_parallel = 16, c.strategy.expert_parallel = 32;
  EXPECT_EQ(c.experts().tensor_parallel, 1);
  ASSERT_EQ(c.run.facts.size(), 1U);
  EXPECT_EQ(c.run.facts.front().key, "assumed.training.etp");
  c.strategy.expert_parallel = 16;
  EXPECT_FALSE(c.experts().tensor_parallel);
  c.strategy.expert_parallel = 64;  // fits neither way: the rule that it breaks is told later
  EXPECT_FALSE(c.experts().tensor_parallel);
}

TEST(RecordedExperts, WhatDividesAsTheRestIsNothingOfItsOwn) {
  Case c;
  c.strategy.tensor_parallel = 2;
  c.record.training.strategy["etp"] = 2;
  EXPECT_EQ(c.experts(), sim::ExpertStrategy{});
}

}  // namespace
}  // namespace llmsim::hwdb
