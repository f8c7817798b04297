#include "calibrate/profile/site_observations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "hwdb/profile/kineto_trace.h"
#include "hwdb/runs/layout_errors.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/predict.h"
#include "tests/calibrate/profile/kineto_writer.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

// Tensor ranks whose collectives nothing hides.
sim::Run run_on(const hwdb::Database& database) {
  hwdb::RunRecord record = sample_record("a", "h100_sxm", "megatron-lm", 16);
  record.hardware.num_devices = 8;
  sim::Run run = hwdb::RunResolver(database).resolve(record);
  run.strategy.tp = 8;
  run.strategy.dp = 1;
  run.strategy.tp_overlap = false;
  return run;
}

// Wires as long as predicted, what kernels hide of them too, and as many calls: the trace has a few
// calls, of what is exposed.
void lengthen_wires(const sim::Prediction& prediction, ProfiledStep& step) {
  for (const CollectiveComparison& one :
       step_difference(std::span(&step, 1), prediction).collectives)
    for (ProfiledCollective& of : step.collectives)
      if (of.call.kind == one.kind && one.predicted > sim::Seconds(0.0)) {
        of.wire = (one.predicted / one.wire) * of.wire;
        of.total.kernels *= one.predicted_calls / one.calls;
      }
}

// A run with these effects, as a profiler sees it.
ProfiledStep profiled_with(sim::Run run, const hwdb::SiteEffects& effects,
                           const PlantedFaults& faults = {}) {
  hwdb::apply_effects(run, effects);
  const sim::Prediction prediction = sim::predict(run);
  const PredictedStep predicted = predicted_step(prediction, false);
  std::istringstream stream(KinetoWriter(predicted, 0, faults).trace());
  ProfiledStep step = profiled_steps(hwdb::parse_trace(stream, "t.json")).front();
  lengthen_wires(prediction, step);
  return step;
}

const hwdb::SiteEffects kPlanted{.step = 0.08, .memory = -0.12, .network = -0.3};

double sum_of(const SiteRow& row, const hwdb::SiteEffects& effects) {
  double sum = 0.0;
  for (const auto& [key, words, value] : hwdb::kSiteEffects)
    sum += row.slopes.*value * effects.*value;
  return sum;
}

TEST(SiteObservations, AreWhatThePlantedEffectsDoToEachKindOfTime) {
  const hwdb::Database database(":memory:");
  const sim::Run run = run_on(database);
  const std::vector<SiteRow> rows = site_observations(profiled_with(run, kPlanted), run);
  ASSERT_EQ(rows.size(), 4u);
  for (const SiteRow& row : rows)
    EXPECT_NEAR(row.residual, sum_of(row, kPlanted), 0.1 * std::abs(row.residual) + 0.025);
  EXPECT_NEAR(rows[0].slopes.step, 1.0, 0.1);
  EXPECT_NEAR(rows[1].slopes.memory, -0.9, 0.15);
  EXPECT_LT(rows[2].slopes.network, -0.4);  // small messages take their start-up
  EXPECT_GT(rows[3].slopes.host, 0.5);
}

// Nor of one that waits for its data or for a late rank.
TEST(SiteObservations, OfARunAsPredictedSayNothing) {
  const hwdb::Database database(":memory:");
  const sim::Run run = run_on(database);
  const PlantedFaults faults{.loading = sim::Seconds(0.2)};
  for (const PlantedFaults& planted : {PlantedFaults{}, faults})
    for (const SiteRow& row : site_observations(profiled_with(run, {}, planted), run))
      EXPECT_NEAR(row.residual, 0.0, 1e-3);
}

// One profile tells apart what one step time cannot.
TEST(SiteObservations, OfOneProfileTellTheEffectsApart) {
  const hwdb::Database database(":memory:");
  const sim::Run run = run_on(database);
  const ProfiledStep step = profiled_with(run, kPlanted);
  SiteRun measured{.id = "a", .run = run, .measured = step.step.value(), .parts = {}};
  const auto fitted = [&] {
    return fit_site("ours", {measured}, hwdb::layout_errors(database), "facts");
  };
  const SiteFit alone = fitted();
  measured.parts = site_observations(step, run);
  const SiteFit profiled = fitted();
  for (const hwdb::SiteEffectName& effect : hwdb::kSiteEffects) {
    if (effect.value == &hwdb::SiteEffects::step) continue;  // shares it with cell and layout
    const double error = std::abs(profiled.site.effects.*effect.value - kPlanted.*effect.value),
                 before = std::abs(alone.site.effects.*effect.value - kPlanted.*effect.value);
    EXPECT_LT(error, 2.0 * profiled.site.deviations.*effect.value) << effect.key;
    EXPECT_LE(error, before + 0.01) << effect.key;
  }
  EXPECT_LT(profiled.site.deviations.network, 0.8 * alone.site.deviations.network);
  EXPECT_NEAR(profiled.rows.front().after / step.step.value(), 1.0, 0.05);
}

// The same run with a data loader that is too slow is no slower cluster.
TEST(SiteObservations, DoNotTakeAFaultForTheCluster) {
  const hwdb::Database database(":memory:");
  const sim::Run run = run_on(database);
  const ProfiledStep step = profiled_with(run, {}, {.loading = sim::Seconds(0.5)});
  SiteRun measured{.id = "a", .run = run, .measured = step.step.value(), .parts = {}};
  measured.parts = site_observations(step, run);
  const SiteFit fit = fit_site("ours", {measured}, hwdb::layout_errors(database), "facts");
  EXPECT_NEAR(fit.rows.front().after / fit.rows.front().before, 1.0, 1e-3);
  EXPECT_GT(step.step / sim::predict(run).step_time, 1.05);
}

}  // namespace
}  // namespace llmsim::calibrate
