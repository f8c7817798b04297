#include "calibrate/learning_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calibrate/site_fit.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

// Three studies of eight runs each, of which one takes half as long again as the others say.
MeasuredRuns three_studies() {
  MeasuredRuns runs = measured_runs(std::vector{
      sample_group("a", "h100_sxm", "pytorch", 8), sample_group("b", "h100_sxm", "pytorch", 8),
      sample_group("c", "h100_sxm", "pytorch", 8), sample_group("few", "h100_sxm", "pytorch", 5)});
  for (MeasuredRun& run : runs.runs)
    run.measured = sim::predict(run.run).step_time.value() * (run.group == 2 ? 1.5 : 1.0);
  return runs;
}

TEST(LearningCurve, RunsOfAStudyTellItsOthers) {
  const MeasuredRuns runs = three_studies();
  const std::vector<StudyCurve> curves = learning_curves(runs, run_fit(runs));
  ASSERT_EQ(curves.size(), 3U);  // "few" has fewer than six
  const StudyCurve& slow = curves[2];
  EXPECT_EQ(slow.study, "c");
  EXPECT_EQ(slow.runs, 8);
  ASSERT_EQ(slow.after.size(), std::size(kLearnedFrom));
  EXPECT_NEAR(slow.after[0].none, std::log(1.5), 0.1);
  EXPECT_EQ(slow.after[0].site, slow.after[0].none);
  EXPECT_LT(slow.after[1].site, 0.5 * slow.after[0].site);
  EXPECT_LT(slow.after[3].site, slow.after[1].site);
  EXPECT_LT(slow.after[3].width, slow.after[0].width);
  // All runs of a study are off by the same: one ratio tells all.
  EXPECT_LT(slow.after[1].scalar, 0.02);
}

// Without a run of its own a study is off by the effects of a site: the step by the spread of studies
// and by what the fit to the others leaves unknown of its factors, cells and rates, each through its
// slope, and noise.
void expect_the_errors_of_an_unknown_site(const MeasuredRuns& runs) {
  RunFit fit = run_fit(runs);
  fit.quantiles = {-0.75, 1.25};
  const std::vector<StudyCurve> curves = learning_curves(runs, fit);
  ASSERT_EQ(curves.size(), runs.groups.size());
  const auto square = [](double x) { return x * x; };
  const auto variance = [&](Level level) { return square(fit.spread(level)); };
  const bool ranks = runs.runs.front().moe;
  const double study = variance(Level::Study), cell = variance(Level::Cell),
               of_ranks = ranks ? variance(Level::MoeStudy) - study : 0.0;
  for (std::size_t g = 0; g < curves.size(); ++g) {
    std::vector<double> slopes, rates, values;  // squares of slopes, variances, residuals
    double unknown = 0.0;
    for (std::size_t i = 0; i < runs.runs.size(); ++i) {
      if (runs.runs[i].group != g) continue;
      const auto of = site_row({.id = "",
                                .run = fitted_run(runs.runs[i], fit.factors[i]),
                                .measured = runs.runs[i].measured})
                          .slopes;
      slopes.push_back(square(of.step));
      rates.push_back(variance(Level::StudyMemory) * square(of.memory) +
                      variance(Level::StudyNetwork) * square(of.network) +
                      variance(Level::StudyHosts) * square(of.host) + square(fit.fit.noise));
      values.push_back(-fit.left_out[i]);
      unknown += std::max(0.0, square(fit.deviations[i]) - study - of_ranks - cell - rates.back());
    }
    const auto count = static_cast<double>(values.size());
    double width = 0.0, inside = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double deviation =
          std::sqrt(slopes[i] * (study + unknown / count + cell + of_ranks) + rates[i]);
      width += 2.0 * deviation / count;
      inside += (values[i] >= -0.75 * deviation && values[i] <= 1.25 * deviation) / count;
    }
    EXPECT_NEAR(curves[g].after[0].width / width, 1.0, 1e-6) << g;
    EXPECT_NEAR(curves[g].after[0].coverage, inside, 1e-9) << g;
    EXPECT_EQ(curves[g].after[0].scalar, curves[g].after[0].none) << g;
  }
}

MeasuredRuns studies_of(int context_ranks) {
  std::vector<hwdb::RunFile> files;
  for (const char* name : {"a", "b", "c"}) {
    files.push_back(sample_group(name, "h100_sxm", "fsdp2", 6));
    for (hwdb::RunRecord& run : files.back().runs) run.training.strategy["cp"] = context_ranks;
  }
  MeasuredRuns runs = measured_runs(files);
  const double slower[] = {1.0, 1.1, 1.3};
  for (std::size_t i = 0; i < runs.runs.size(); ++i)
    runs.runs[i].measured = sim::predict(runs.runs[i].run).step_time.value() *
                            slower[runs.runs[i].group] * (i % 2 ? 1.02 : 0.98);
  return runs;
}

TEST(LearningCurve, WithoutRunsErrorsAreThoseOfAnUnknownSite) {
  expect_the_errors_of_an_unknown_site(studies_of(1));
}

// Context ranks may differ more.
TEST(LearningCurve, WithoutRunsRanksMayBeOffByMore) {
  expect_the_errors_of_an_unknown_site(studies_of(2));
}

// Means over studies, each once: the third takes half as long again, the others what is predicted.
TEST(LearningCurve, AMeanCountsEachStudyOnce) {
  std::vector<StudyCurve> studies(2);
  for (StudyCurve& study : studies) study.after.resize(std::size(kLearnedFrom));
  studies[0].after[1] = {
      .none = 0.1, .scalar = 0.2, .step = 0.3, .site = 0.4, .coverage = 0.5, .width = 0.6};
  studies[1].after[1] = {
      .none = 0.3, .scalar = 0.4, .step = 0.5, .site = 0.6, .coverage = 0.7, .width = 0.8};
  const Learned mean = mean_curve(studies)[1];
  const double values[] = {mean.none, mean.scalar, mean.step, mean.site, mean.coverage, mean.width};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(values[i], 0.2 + 0.1 * i, 1e-12) << i;
}

TEST(LearningCurve, IsTheSameInEveryCall) {
  const MeasuredRuns runs = three_studies();
  const RunFit fit = run_fit(runs);
  const auto once = mean_curve(learning_curves(runs, fit)),
             again = mean_curve(learning_curves(runs, fit));
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t k = 0; k < once.size(); ++k) EXPECT_EQ(once[k].site, again[k].site);
  EXPECT_TRUE(mean_curve({}).empty());
}

}  // namespace
}  // namespace llmsim::calibrate
