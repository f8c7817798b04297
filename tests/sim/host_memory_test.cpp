#include "sim/memory/footprint.h"

#include <gtest/gtest.h>

#include "sim/memory/shards.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

HostMemory memory_of(const TrainingRun& run) {
  return memory_footprint(run, layer_prices(run)).host;
}

TEST(HostMemory, WithoutOffloadThereIsNothing) {
  EXPECT_EQ(memory_of(small_run(8)).node, Bytes(0.0));
}

TEST(HostMemory, AnOffloadedOptimizerKeepsItsStatesAndFp32Gradients) {
  TrainingRun run = small_run();
  run.strategy.offload.optimizer = true;
  EXPECT_DOUBLE_EQ(memory_of(run).device.value(), (4.0 + 8.0 + 4.0) * parameter_count(run));
  run.framework.host_copies.gradients_return = true;  // and the sums in 16 bits
  EXPECT_DOUBLE_EQ(memory_of(run).device.value(), (4.0 + 8.0 + 4.0 + 2.0) * parameter_count(run));
}

TEST(HostMemory, RanksOfANodeShareAShardedModel) {
  TrainingRun run = small_run(16);
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.offload = {.optimizer = true, .parameters = true};
  // Eight of sixteen ranks: half of 16 + 2 bytes per parameter.
  EXPECT_DOUBLE_EQ(memory_of(run).node.value(), 18.0 * parameter_count(run) / 2.0);
}

TEST(HostMemory, CheckpointsOfAllBlocksButTwo) {
  TrainingRun run = small_run();
  run.strategy.offload.activations = true;
  run.strategy.recompute = {RecomputeKind::Full, 1};
  EXPECT_DOUBLE_EQ(memory_of(run).device.value(), 6.0 * layer_prices(run).blocks[0].saved.value());
}

TEST(HostMemory, EachProcessMayLoadTheWholeModel) {
  TrainingRun run = small_run(16);
  run.strategy.sharding = Sharding::Zero2;
  run.framework.host_load_bytes = 4.0;
  const HostMemory memory = memory_of(run);
  EXPECT_TRUE(memory.loading);
  EXPECT_DOUBLE_EQ(memory.node.value(), 8.0 * 4.0 * parameter_count(run));
}

TEST(HostMemory, ARunThatDoesNotFitIsAnAnswer) {
  TrainingRun run = small_run(8);
  run.strategy.offload.optimizer = true;
  run.cluster.host_memory = 10.0 * GiB;
  const Prediction p = predict(run);
  ASSERT_FALSE(p.feasible());
  EXPECT_EQ(p.infeasible->rule, "out of host memory");
  // 8 ranks of 16 bytes for 0.135e9 parameters.
  EXPECT_NE(p.infeasible->message.find("per node, 10.0 GiB installed"), std::string::npos)
      << p.infeasible->message;
  EXPECT_GT(p.step_time, Seconds(0.0));
  run.cluster.host_memory = Bytes(0.0);  // unknown
  EXPECT_TRUE(predict(run).feasible());
}

}  // namespace
}  // namespace llmsim::sim
