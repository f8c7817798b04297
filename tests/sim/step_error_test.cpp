#include "sim/schedule/step_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

StepSlopes slopes_of(const TrainingRun& run) {
  const LayerPrices prices = layer_prices(run);
  return step_slopes(run, prices, simulate_step(run, prices));
}

// Eight tensor ranks, whose collectives nothing hides: a network that is faster by one per cent
// takes as much off their share of the step.
TEST(StepSlopes, OfShownCollectivesAreTheirShareOfTheStep) {
  TrainingRun run = small_run(8);
  run.strategy.dp = 1, run.strategy.tp = 8;
  run.framework.errors.collectives = 0.1;
  const StepTimes step = simulate_step(run, layer_prices(run));
  Seconds shown;
  for (const TimeTerm& term : step.breakdown)
    if (term.name == std::string_view(name_of(Term::TensorExposed))) shown += term.time;
  ASSERT_GT(shown, Seconds(0.0));
  EXPECT_NEAR(slopes_of(run).collectives, -(shown / step.total), 0.01);
}

TEST(StepSlopes, WithoutAnErrorOrANetworkAreNone) {
  TrainingRun run = small_run(8);
  run.framework.errors.collectives = 0.0;
  EXPECT_EQ(slopes_of(run).collectives, 0.0);
  run = small_run(1);
  run.framework.errors.collectives = 0.1;
  EXPECT_EQ(slopes_of(run).collectives, 0.0);
}

// sqrt(0.03^2 + 0.04^2 + 0.12^2) = 0.13.
TEST(StepError, AddsIndependentErrors) {
  TrainingRun run = small_run();
  run.framework.errors = {};
  run.framework.errors.site = run.framework.errors.moe_site = 0.03;
  run.framework.errors.efficiency = run.framework.errors.cell = 0.0;
  run.framework.errors.run = 0.04;
  run.framework.errors.collectives = 0.24;
  run.framework.errors.hosts = run.framework.errors.between_steps = 0.0;
  run.cluster.device.achieved.training_rate_error = 0.0;
  EXPECT_NEAR(step_error(run, {.collectives = -0.5}), 0.13, 1e-12);
}

}  // namespace
}  // namespace llmsim::sim
