#include "sim/search/plan_query.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using Keys = std::vector<std::string>;

PlanQuery eight_devices() {
  PlanQuery query;
  query.base = small_run(8);
  query.base.framework.offers.zero3_in_pipelines = false;
  return query;
}

// What is outside of the space of eight devices, of a run that differs from its base so.
template <class Change>
Keys outside_with(const Change& change) {
  const PlanQuery query = eight_devices();
  TrainingRun run = query.base;
  change(run);
  return fields_outside(query, run);
}

TEST(FieldsOutside, AreNoneOfAMember) {
  PlanQuery query = eight_devices();
  query.restriction = {{"recompute", {std::string("none"), std::string("full")}},
                       {"micro_batch", {std::int64_t{2}}}};
  const SearchBase base = search_base(query);
  for_each_strategy(base, query.restriction, [&](const Strategy& strategy) {
    TrainingRun run = query.base;
    run.strategy = strategy;
    EXPECT_EQ(fields_outside(query, run), Keys{});
  });
}

TEST(FieldsOutside, NameEachSearchedFieldThatNoMemberHasSo) {
  EXPECT_EQ(outside_with([](TrainingRun& run) { run.strategy.micro_batch = 3; }),
            Keys{"micro_batch"});
  EXPECT_EQ(outside_with([](TrainingRun& run) {
              run.strategy.sharding = Sharding::Zero1;
              run.strategy.shard_size = 4;
              run.strategy.recompute = {.kind = RecomputeKind::EveryN, .every_n = 3};
            }),
            (Keys{"shard_size", "recompute"}));
  EXPECT_EQ(outside_with([](TrainingRun& run) {
              run.strategy.dp = 4;
              run.strategy.pp = 2;
              run.strategy.sharding = Sharding::Zero3;
              run.strategy.pipeline_schedule = PipelineSchedule::GPipe;
            }),
            (Keys{"pipeline_schedule", "sharding"}));
}

TEST(FieldsOutside, NameWhatTheSearchLeavesAsItIs) {
  EXPECT_EQ(outside_with([](TrainingRun& run) {
              run.strategy.compile = true;
              run.framework.dropout = 0.1;
              run.optimizer_step = false;
            }),
            (Keys{"compile", "framework.dropout", "optimizer_step"}));
}

// Of one tensor rank, one stage, and shards of all ranks.
TEST(FieldsOutside, LeaveOutWhatSaysNothing) {
  EXPECT_EQ(outside_with([](TrainingRun& run) {
              run.strategy.tp_overlap = run.strategy.sequence_parallel = true;
              run.strategy.etp = 1;
              run.strategy.pipeline_schedule = PipelineSchedule::GPipe;
              run.strategy.embeddings_as_layers = true;
              run.strategy.sharding = Sharding::Zero1;
              run.strategy.shard_size = 8;
            }),
            Keys{});
}

TEST(FieldsOutside, AreThoseUnderTheShardingOfTheRun) {
  PlanQuery query = eight_devices();
  query.under.emplace(Sharding::Zero1, query.base);
  query.under.at(Sharding::Zero1).framework.gradients.bucket = 1e6;
  TrainingRun run = query.base;
  run.strategy.sharding = Sharding::Zero1;
  EXPECT_EQ(fields_outside(query, run), Keys{"framework.gradients.bucket"});
  run.framework.gradients.bucket = 1e6;
  EXPECT_EQ(fields_outside(query, run), Keys{});
}

}  // namespace
}  // namespace llmsim::sim
