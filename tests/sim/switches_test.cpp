#include "sim/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TrainingRun data_parallel_run() {
  TrainingRun run = small_run(8);
  run.strategy.dp = 8;
  run.strategy.global_batch = 8;
  run.strategy.gradient_overlap = true;
  return run;
}

TEST(SwitchWorths, AreTheStepTimesOfBothWays) {
  const TrainingRun run = data_parallel_run();
  TrainingRun other = run;
  other.strategy.gradient_overlap = false;
  const auto worths = switch_worths(run, {"gradient_overlap"});
  ASSERT_EQ(worths.size(), 1u);
  EXPECT_TRUE(worths[0].on);
  EXPECT_EQ(worths[0].other_way, predict(other).step_time / predict(run).step_time);
  EXPECT_GT(worths[0].other_way, 1.0);
}

TEST(SwitchWorths, TheStrongestComesFirst) {
  const auto worths =
      switch_worths(data_parallel_run(), {"tp_overlap", "gradient_overlap", "flash_attention"});
  for (std::size_t i = 1; i < worths.size(); ++i)
    EXPECT_GE(std::abs(std::log(worths[i - 1].other_way)), std::abs(std::log(worths[i].other_way)));
}

TEST(SwitchWorths, LeaveOutWhatIsNoSwitchAndWhatChangesNothing) {
  EXPECT_TRUE(switch_worths(data_parallel_run(), {"tp", "no such field", "tp_overlap"}).empty());
}

}  // namespace
}  // namespace llmsim::sim
