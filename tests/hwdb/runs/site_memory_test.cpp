#include "hwdb/runs/site_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/site.h"
#include "sim/predict.h"
#include "tests/hwdb/runs/sample_site.h"

namespace llmsim::hwdb {
namespace {

sim::Run resolved(std::optional<Site> site = std::nullopt) {
  return resolved_at(sample_record(), std::move(site));
}

// One peak of the run, 0.2 above its prediction, and one of a device that says something of gaps
// and of the context.
SiteMemory sample_memory() {
  const sim::Run run = resolved();
  SiteMemory memory;
  memory.spreads = {.site = 0.15, .layout = 0.11, .gaps = 0.4, .context = 0.6, .run = 0.04};
  sim::PeakObservation peak{.id = "runs/a, the first",
                            .kind = "allocated",
                            .problem = peak_problem(run),
                            .layout = traits_of(run.strategy),
                            .slopes = {},
                            .residual = 0.2,
                            .noise = 0.04};
  memory.peaks = {peak, peak};
  peak.kind = "device", peak.slopes = {.allocated = 0.9, .gaps = 1.0 / 7.0, .context = 0.1};
  peak.layout[0] = std::log2(6.0);
  peak.residual = -1.0 / 3.0, peak.noise = 0.1;
  for (int i = 0; i < 10; ++i) memory.peaks.push_back(peak);
  return memory;
}

Site site_with(const SiteMemory& memory) {
  Site site;
  site.name = "ours", site.source = "a test", site.fitted_from = "12 peaks";
  site.memory = memory;
  return site;
}

TEST(SiteMemory, WhatIsSavedIsWhatIsLoaded) {
  Database database(":memory:");
  put_site(database, site_with(sample_memory()), false);
  const Site loaded = site(database, "ours");
  EXPECT_EQ(loaded.memory, sample_memory());
  EXPECT_TRUE(loaded.cells.empty());
  EXPECT_EQ(loaded.fitted_from, "12 peaks");
}

TEST(SiteMemory, RowsOfLaterVersionsAreLeftOut) {
  SiteMemory memory;
  Coefficient row;
  row.scope = "site", row.id = "ours", row.key = "peak/0001/newer", row.value = 1.0;
  EXPECT_TRUE(read(row, memory));
  row.key = "step";
  EXPECT_FALSE(read(row, memory));
  EXPECT_TRUE(memory.empty());
}

TEST(SiteMemory, MovesPeaksGapsContextAndErrors) {
  const sim::Run before = resolved();
  const SiteMemory memory = sample_memory();
  const sim::Run after = resolved(site_with(memory));
  const sim::PeakCorrection known =
      peak_correction(memory.peaks, memory.spreads, peak_problem(before));
  EXPECT_NEAR(std::log(predict(after).memory.peak / predict(before).memory.peak),
              known.log_factor(traits_of(before.strategy)), 1e-9);
  EXPECT_NE(known.log_gaps, 0.0);
  EXPECT_NEAR(after.framework.reserve.gaps_factor / before.framework.reserve.gaps_factor,
              std::exp(known.log_gaps), 1e-12);
  EXPECT_NEAR(after.cluster.device.context_memory / before.cluster.device.context_memory,
              std::exp(known.log_context), 1e-12);
  EXPECT_NEAR(after.framework.errors.memory, known.largest_error({}), 1e-12);
  EXPECT_NEAR(after.framework.errors.needed_per_peak(), before.framework.errors.needed_per_peak(),
              1e-12);
  EXPECT_LT(predict(after).memory.error, before.framework.errors.memory);
}

TEST(SiteMemory, WithoutStepTimesThoseStay) {
  const sim::Run before = resolved(), after = resolved(site_with(sample_memory()));
  EXPECT_EQ(predict(after).step_time, predict(before).step_time);
  EXPECT_EQ(predict(after).interval, predict(before).interval);
  EXPECT_EQ(after.warnings, before.warnings);
}

}  // namespace
}  // namespace llmsim::hwdb
