#include "calibrate/leave_one_out.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

const RunCoefficient kRate{"device", "h100_sxm", "training_rate", 1.0, 0.2};

// Groups a and b on H100 took e^0.2 and e^0.1 times what is predicted, group c on A100 e^0.3 times.
MeasuredRuns three_groups() {
  MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "fsdp1", 4),
                                                sample_group("b", "h100_sxm", "llm-foundry", 4),
                                                sample_group("c", "a100_sxm_80", "fsdp1", 4)},
                                    {kRate});
  for (MeasuredRun& run : runs.runs) run.measured = 1.0;
  const std::vector<double> predicted = log_errors(runs, {0.0});
  const double slowness[] = {0.2, 0.1, 0.3};
  for (std::size_t i = 0; i < predicted.size(); ++i)
    runs.runs[i].measured = std::exp(predicted[i] + slowness[runs.runs[i].group]);
  return runs;
}

TEST(LeaveOneOut, AGroupIsPredictedWithWhatTheOthersSay) {
  const MeasuredRuns runs = three_groups();
  const LeaveOneOut result = leave_one_out(runs);
  const RunFit without_a = run_fit(runs, {.without = 0, .misfit = result.fit.misfit});
  EXPECT_NEAR(result.shifts[0][0], without_a.shifts[0], 1e-3);
  EXPECT_NEAR(result.left_out[0], log_errors(runs, without_a.shifts)[0], 1e-3);
  EXPECT_NEAR(result.before[0], -0.2, 1e-9);
  EXPECT_LT(result.before[0], result.left_out[0]);  // b is slow too
  EXPECT_LT(result.left_out[0], result.fitted[0]);  // but not as slow as a
}

TEST(LeaveOneOut, AGroupThatSaysNothingAboutACoefficientIsPredictedAlikeInAndOut) {
  const LeaveOneOut result = leave_one_out(three_groups());
  EXPECT_NEAR(result.left_out.back(), -0.3, 1e-9);
  EXPECT_NEAR(result.fitted.back(), -0.3, 1e-9);
}

TEST(LeaveOneOut, TheInfluenceOfAGroupIsTheShiftWhenItIsAdded) {
  const LeaveOneOut result = leave_one_out(three_groups());
  ASSERT_EQ(result.influence[0].size(), 2u);  // c has no H100
  for (const Influence& i : result.influence[0])
    EXPECT_NEAR(i.shift, result.fit.shifts[0] - result.shifts[i.group][0], 1e-12);
  EXPECT_EQ(result.influence[0].front().group, 0u);  // the slower one pulls more
}

// Jackknife of two groups: sqrt(1/2 (d^2/4 + d^2/4)) = |d| / 2 with d the difference of the two
// shifts.
TEST(LeaveOneOut, TheErrorIsAtLeastThatOfTheJackknife) {
  const LeaveOneOut result = leave_one_out(three_groups());
  const double jackknife = std::abs(result.shifts[0][0] - result.shifts[1][0]) / 2.0;
  EXPECT_NEAR(result.deviations[0], std::max(jackknife, result.fit.deviations[0]), 1e-12);
}

TEST(LeaveOneOut, ARowSaysWhatMovedIt) {
  const MeasuredRuns runs = three_groups();
  LeaveOneOut result;
  result.fit = {.shifts = {std::log(0.9)}, .deviations = {0.05}, .misfit = 0.1};
  result.influence = {{{0, -0.081}, {1, -0.024}}};
  result.deviations = {0.1};
  const std::vector<hwdb::Coefficient> rows = fitted_rows(runs, result);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(rows[0].value, 0.9, 1e-12);
  EXPECT_NEAR(*rows[0].standard_error, 0.09, 1e-12);  // 0.9 * 0.1
  EXPECT_EQ(rows[0].fitted_from, "step times of 2 groups: a -8.1 %, b -2.4 %");
}

TEST(LeaveOneOut, AnUnmovedPriorIsNoResult) {
  LeaveOneOut result;
  result.fit = {.shifts = {0.0}, .deviations = {0.19}, .misfit = 0.1};  // of 0.2 before
  result.influence = {{}};
  result.deviations = {0.19};
  EXPECT_TRUE(fitted_rows(three_groups(), result).empty());
}

TEST(LeaveOneOut, ABacktestTakesTheErrorsForPredictions) {
  const std::vector files{sample_group("a", "h100_sxm", "fsdp1", 3)};  // each took 1 s
  const MeasuredRuns runs = measured_runs(files, {});
  const auto interval = [](std::size_t run) {
    return run == 0 ? std::pair(-0.1, 0.1) : std::pair(-0.5, 0.5);
  };
  const Backtest test = backtest_of(files, runs, {0.2, 0.4, -0.3}, interval);
  EXPECT_NEAR(*test.overall.macro_median_abs_error, 0.3, 1e-12);
  EXPECT_NEAR(*test.overall.coverage, 2.0 / 3.0, 1e-12);  // 0.2 lies outside 0.1
}

}  // namespace
}  // namespace llmsim::calibrate
