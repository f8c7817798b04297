#include "calibrate/next_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hwdb/runs/run_resolver.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_layouts.h"
#include "tests/calibrate/sample_runs.h"
#include "tests/error_of.h"

namespace llmsim::calibrate {
namespace {

// Nothing is measured: 0.04 less 0.04^2 / (0.04 + 0.01) by the layout itself, less the square of
// 0.04 e^-0.5 over 0.05 by one two doublings away.
TEST(VarianceAfter, IsWorkedOutByHand) {
  const SitePosterior site = site_posterior({}, layout_priors());
  EXPECT_NEAR(variance_after(site, row_at(0.0), row_at(0.0)), 0.008, 1e-9);
  EXPECT_NEAR(variance_after(site, row_at(0.0), row_at(2.0)), 0.04 - 0.032 * std::exp(-1.0), 1e-9);
}

// As if the run had been among those that were fitted.
TEST(VarianceAfter, IsThatOfTheFitToBothRuns) {
  const SitePosterior one = site_posterior({row_at(0.0)}, layout_priors()),
                      two = site_posterior({row_at(0.0), row_at(2.0)}, layout_priors());
  EXPECT_NEAR(variance_after(one, row_at(1.5), row_at(2.0)), two.variance_of(row_at(1.5)), 1e-9);
}

sim::Run sample_run(int devices = 8) {
  static const hwdb::Database database(":memory:");
  hwdb::RunRecord record = sample_record("a", "h100_sxm", "fsdp2", 4 * devices);
  record.hardware.num_devices = devices;
  return hwdb::RunResolver(database).resolve(record);
}

TEST(Neighbours, DifferInOneNumberAndFit) {
  const sim::Run run = sample_run(16);
  const std::vector<sim::Run> found = neighbours(run);
  ASSERT_FALSE(found.empty());
  for (const sim::Run& other : found) {
    const sim::Strategy &s = other.strategy, &own = run.strategy;
    EXPECT_NE(s, own);
    EXPECT_FALSE(sim::predict(other).infeasible);
    EXPECT_EQ(s.num_devices(), other.cluster.num_devices);
    EXPECT_LE((s.micro_batch != own.micro_batch) + (s.tp != own.tp) + (s.pp != own.pp), 1);
  }
  EXPECT_EQ(found.front().cluster.num_devices, 16);
  EXPECT_LT(found.back().cluster.num_devices, 16);
}

TEST(NextRuns, NarrowTheIntervalTheMostFirst) {
  const sim::Run measured = sample_run(8), wanted = sample_run(64);
  sim::LayoutErrors layouts{.error = 0.1, .run = 0.04};
  const SiteFit fit = fit_site(
      "ours", {{.id = "a", .run = measured, .measured = sim::predict(measured).step_time.value()}},
      layouts, "");
  const NextRuns next = next_runs(fit, wanted);
  const auto ratio = [](const NextRun& run) { return run.interval.second / run.interval.first; };
  ASSERT_GT(next.best.size(), 1U);
  for (std::size_t i = 0; i < next.best.size(); ++i) {
    EXPECT_LT(ratio(next.best[i]), ratio(next.now));
    if (i > 0) {
      EXPECT_LE(ratio(next.best[i - 1]), ratio(next.best[i]));
      EXPECT_NE(next.best[i].run.cluster.num_devices, next.best[i - 1].run.cluster.num_devices);
    }
  }
  sim::Run with_site = wanted;
  hwdb::apply(fit.site, hwdb::Frameworks::shipped(), with_site);
  const sim::Prediction now = sim::predict(with_site);
  EXPECT_EQ(next.now.step_time, now.step_time.value());
  EXPECT_EQ(next.now.interval.first, now.interval.first.value());
  EXPECT_EQ(next.now.interval.second, now.interval.second.value());
}

TEST(NextRuns, NeedARunOfTheirCell) {
  const sim::Run measured = sample_run();
  const SiteFit fit = fit_site("ours", {{.id = "a", .run = measured, .measured = 1.0}}, {}, "");
  sim::Run wanted = measured;
  wanted.cluster.device.id = "a100_sxm_80";
  EXPECT_EQ(error_of([&] { next_runs(fit, wanted); }),
            "the site has no run on a100_sxm_80 under fsdp2 in bf16 of such a model: one of them, "
            "on few devices, tells most");
}

}  // namespace
}  // namespace llmsim::calibrate
