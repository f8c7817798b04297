#include "calibrate/step_proxy.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::calibrate {
namespace {

using sim::GiB;
using sim::Seconds;
using sim::TrainingRun;

constexpr ProxyLimits kOne{.ranks = 1, .step = Seconds(1e9)};

TrainingRun large_run() {
  TrainingRun run = sim::small_run();
  run.model.num_layers = 16;
  run.strategy.dp = 8, run.strategy.pp = 4, run.strategy.tp = 2;
  run.strategy.sharding = sim::Sharding::Zero1;
  run.strategy.micro_batch = 1, run.strategy.global_batch = 8 * 6;
  run.cluster.num_devices = 64;
  run.cluster.device.memory = 80.0 * GiB;
  return run;
}

TEST(StepProxy, IsTheRunWhereItFits) {
  const TrainingRun run = large_run();
  const StepProxy proxy = step_proxy(run, {.ranks = 64, .step = Seconds(1e9)});
  EXPECT_EQ(proxy.run.strategy, run.strategy);
  EXPECT_EQ(proxy.run.model, run.model);
  EXPECT_TRUE(proxy.changes.empty());
}

// Eight ranks are one data rank of four stages of two; two are one stage, with its four layers.
TEST(StepProxy, HasFewerDataRanksThenFewerStages) {
  const StepProxy eight = step_proxy(large_run(), {.ranks = 8, .step = Seconds(1e9)});
  EXPECT_EQ(eight.changes, std::vector<std::string>{"dp 8 -> 1"});
  EXPECT_EQ(eight.run.strategy.num_microbatches(), 6);
  EXPECT_EQ(eight.run.strategy.sharding, sim::Sharding::None);
  const StepProxy two = step_proxy(large_run(), {.ranks = 2, .step = Seconds(1e9)});
  EXPECT_EQ(two.changes, (std::vector<std::string>{"dp 8 -> 1", "pp 4 -> 1", "layers 16 -> 4"}));
  EXPECT_EQ(two.run.cluster.num_devices, 2);
}

TEST(StepProxy, KeepsTensorRanks) {
  try {
    step_proxy(large_run(), kOne);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "tp = 2, cp = 1: needs 2 ranks, and there are 1; --ranks 2 or more");
  }
}

// Thirty-two experts over eight ranks are four on each; so they are over two.
TEST(StepProxy, KeepsTheExpertsOfARank) {
  TrainingRun run = sim::small_run();
  run.model = sim::small_moe();
  run.model.moe->num_experts = 32;
  run.strategy.dp = run.strategy.ep = 8, run.strategy.global_batch = 8;
  run.cluster.num_devices = 8;
  run.cluster.device.memory = 80.0 * GiB;
  const TrainingRun two = step_proxy(run, {.ranks = 2, .step = Seconds(1e9)}).run;
  EXPECT_EQ(two.strategy.ep, 2);
  EXPECT_EQ(two.model.moe->num_experts, 8);
}

// A device of half of what the step needs has two layers of it, one of fewer seconds fewer
// micro-batches first.
TEST(StepProxy, HasTwoLayersWhereItDoesNotFit) {
  TrainingRun run = large_run();
  run.strategy.tp = run.strategy.pp = 1, run.cluster.num_devices = 8;
  const StepProxy whole = step_proxy(run, kOne);
  EXPECT_EQ(whole.run.model.num_layers, 16);
  run.cluster.device.memory = 0.5 * sim::predict(whole.run).memory.needed();
  EXPECT_EQ(step_proxy(run, kOne).run.model.num_layers, 2);
  run.cluster.device.memory = 80.0 * GiB;
  const Seconds step = sim::predict(whole.run).step_time;
  const TrainingRun shorter = step_proxy(run, {.ranks = 1, .step = 0.9 * step}).run;
  EXPECT_EQ(shorter.strategy.num_microbatches(), 1);
  EXPECT_EQ(shorter.model.num_layers, 16);
}

}  // namespace
}  // namespace llmsim::calibrate
