#include "hwdb/runs/plan_query.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

RunRecord on_eight(const std::string& framework) {
  RunRecord record;
  record.model.name = "llama-3-8b";
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = 8;
  record.training.framework = framework;
  record.training.strategy["global_batch"] = 64;
  return record;
}

sim::PlanQuery query_of(const RunRecord& record) {
  static const Database database(":memory:");
  RunResolver resolver(database);
  return plan_query(record, resolver);
}

TEST(PlanQuery, HasTheRunUnderEachSharding) {
  const sim::PlanQuery query = query_of(on_eight("torchtitan"));
  EXPECT_EQ(query.under.size(), sim::kAllShardings.size());
  EXPECT_EQ(query.base.strategy.sharding, sim::Sharding::None);
  EXPECT_EQ(query.under.at(sim::Sharding::Zero3).strategy.sharding, sim::Sharding::Zero3);
  // FSDP's ZeRO-2 gathers sharded weights once.
  EXPECT_EQ(query.under.at(sim::Sharding::Zero2).strategy.sharding, sim::Sharding::Zero3);
  EXPECT_TRUE(query.restriction.empty());
}

// A search has no tensor ranks yet: Megatron-Bridge overlaps those that it will choose.
TEST(PlanQuery, OverlapsTensorRanksAsTheFrameworkDoes) {
  EXPECT_TRUE(query_of(on_eight("megatron-bridge")).base.strategy.tp_overlap);
  EXPECT_FALSE(query_of(on_eight("megatron-lm")).base.strategy.tp_overlap);
}

TEST(PlanQuery, ShardsSequencesWhereThatIsStatedAndElseLeavesItOpen) {
  RunRecord record = on_eight("megatron-lm");
  EXPECT_FALSE(query_of(record).base.strategy.sequence_parallel);
  record.training.strategy["sequence_parallel"] = true;
  EXPECT_TRUE(query_of(record).base.strategy.sequence_parallel);
}

TEST(WithoutLayout, LeavesTheProblem) {
  RunRecord record = on_eight("megatron-lm");
  record.training.num_microbatches = 16;
  record.training.strategy = {{"tp", 2},
                              {"pp", 2},
                              {"micro_batch", 2},
                              {"sharding", std::string("zero1")},
                              {"sequence_parallel", true},
                              {"recompute.kind", std::string("full")},
                              {"recompute.blocks", 2},
                              {"stage_layers", std::vector{15, 17}},
                              {"compile", true}};
  sim::Run run;
  run.framework.id = "megatron-lm";
  run.strategy.global_batch = 64;
  const RecordedTraining left = without_layout(record, run).training;
  EXPECT_EQ(left.strategy, (sim::PartialStrategy{{"global_batch", std::int64_t{64}},
                                                 {"stage_layers", std::vector{15, 17}},
                                                 {"compile", true}}));
  EXPECT_FALSE(left.num_microbatches);
}

}  // namespace
}  // namespace llmsim::hwdb
