// What holds of every run: a step, its memory and its drawing.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "sim/job.h"
#include "sim/predict.h"
#include "sim/schedule/timeline.h"
#include "sim/strategy/stages.h"
#include "tests/share.h"
#include "tests/sim/random_run.h"

namespace llmsim::sim {
namespace {

constexpr unsigned kSeeds = 6000;  // a fifth of them are valid runs

template <class Check>
void for_random_runs(Check check) {
  unsigned runs = 0;
  for (unsigned seed = 0; seed < share_of(kSeeds); ++seed) {
    std::optional<TrainingRun> run = random_run(seed);
    if (!run) continue;
    RandomChoice choose(seed);
    run->cluster.device.achieved.device_spread = choose.of({0.0, 0.01});
    run->framework.host.per_step = Seconds(choose.of({0.0, 1e-3}));
    run->framework.host.per_kernel = Seconds(choose.of({0.0, 5e-6}));
    run->cluster.network.latency = Seconds(choose.of({0.0, 5e-6}));
    SCOPED_TRACE(seed);
    check(*run, choose);
    ++runs;
  }
  EXPECT_GE(runs, share_of(1000));
}

// Of every stage; one that updates without waiting for others ends with its own step.
TEST(RandomRuns, AreDrawnToTheEndOfTheirStep) {
  for_random_runs([](const TrainingRun& run, RandomChoice& choose) {
    const LayerPrices prices = layer_prices(run);
    const double step = step_time(run, prices).value();
    const Timeline timeline = step_timeline(run, prices, {.microbatches = 1 + choose.below(4)});
    for (const StageTimeline& stage : timeline.stages) {
      Seconds first = stage.events.front().start, last;
      for (const TimelineEvent& event : stage.events) {
        first = std::min(first, event.start);
        last = std::max(last, event.start + event.duration);
      }
      const bool alone = updates_unsynchronised(run.strategy.pipeline_schedule);
      EXPECT_LE((last - first).value(), step * (1.0 + 1e-9)) << stage.stage;
      if (alone && stage.stage != timeline.busiest) continue;
      EXPECT_NEAR((last - first).value(), step, 1e-9 * step) << stage.stage;
    }
  });
}

// The fullest rank holds its share of the weights at least.
TEST(RandomRuns, HoldTheirParameters) {
  for_random_runs([](const TrainingRun& run, RandomChoice&) {
    const Prediction p = predict(run);
    const double weights = static_cast<double>(p.parameters.total()) *
                           run.framework.storage.weight_bytes / run.strategy.num_devices();
    EXPECT_GE(p.memory.peak.value(), weights);
  });
}

TEST(RandomRuns, TakeAsLongAndNeedAsMuchWithoutTheTermsOfTheirPeak) {
  for_random_runs([](const TrainingRun& run, RandomChoice&) {
    const Prediction whole = predict(run), short_one = predict_without_terms(run);
    EXPECT_EQ(whole.step_time, short_one.step_time);
    EXPECT_EQ(whole.memory.peak, short_one.memory.peak);
    EXPECT_EQ(whole.memory.needed(), short_one.memory.needed());
    EXPECT_EQ(whole.feasible(), short_one.feasible());
    EXPECT_EQ(whole.mfu, short_one.mfu);
  });
}

// Days grow with the tokens, with what fails and with the slow devices.
TEST(RandomRuns, TakeLongerForMoreTokens) {
  for_random_runs([](const TrainingRun& run, RandomChoice& choose) {
    const double tokens = 1e6 * std::pow(10.0, choose.below(7));
    Job job = job_of(run, {.value = step_time(run, layer_prices(run))}, tokens);
    job.failures.per_device = Hertz(choose.of({0.0, 1e-7, 1e-5}));
    job.restart = {Seconds(choose.of({0.0, 60.0, 3600.0})), 0.4};
    job.checkpoint.asynchronous = false;
    job.slow_share = choose.of({0.0, 0.1}), job.slowdown = choose.of({0.0, 0.5});
    const Seconds before = job_estimate(job).wall_time.value;
    for (const double factor : {1.001, 2.0, 1000.0}) {
      Job longer = job;
      longer.tokens *= factor;
      EXPECT_GE(job_estimate(longer).wall_time.value, before) << factor;
    }
    Job failing = job;
    failing.failures.per_device += Hertz(1e-6);
    EXPECT_GE(job_estimate(failing).wall_time.value, before);
  });
}

}  // namespace
}  // namespace llmsim::sim
