#include "sim/search_space.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// plan_test.cpp holds the whole space to plain loops.
std::vector<Strategy> tried(int devices, const Restriction& restriction) {
  TrainingRun run = small_run(devices);
  SearchBase base{run.model, devices, run.strategy, {}};
  base.under.fill(run.strategy);
  std::vector<Strategy> list;
  for_each_strategy(base, restriction, [&](const Strategy& strategy) { list.push_back(strategy); });
  return list;
}

// Eight sequences in micro-batches of 1, 2, 4 and 8; nothing is sharded or divided, five ways to
// recompute.
TEST(SearchSpace, OneDeviceHasMicroBatchesAndRecomputationToChoose) {
  EXPECT_EQ(tried(1, {}).size(), 4u * 5u);
}

// Shards of 2 and 4 of the eight ranks: with 1 and 8 it would be no sharding and ZeRO-3.
TEST(SearchSpace, HybridShardsAreTrueParts) {
  const std::vector<Strategy> list = tried(8, {{"tp", {std::int64_t{1}}},
                                               {"pp", {std::int64_t{1}}},
                                               {"micro_batch", {std::int64_t{1}}},
                                               {"sharding", {std::string("hsdp")}},
                                               {"recompute", {std::string("full")}}});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].shard_size, 2);
  EXPECT_EQ(list[1].shard_size, 4);
  for (const Strategy& s : list) EXPECT_EQ(s.dp, 8);
}

TEST(SearchSpace, AValueThatAFieldCannotHaveIsAnError) {
  EXPECT_EQ(error_of([] {
              tried(1, {{"tp", {std::string("two")}}});
            }),
            "tp = two: a search cannot try it");
  EXPECT_EQ(error_of([] {
              tried(1, {{"recompute", {std::string("some")}}});
            }),
            "recompute = some: unknown");
}

}  // namespace
}  // namespace llmsim::sim
