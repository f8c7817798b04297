#include "calibrate/learning_curve.h"

#include <gtest/gtest.h>

#include <cmath>

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
