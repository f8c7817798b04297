#include "calibrate/run_fit.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

// Four devices under two frameworks, each pair a group of four runs.
std::vector<hwdb::RunFile> eight_groups() {
  std::vector<hwdb::RunFile> files;
  for (const char* accelerator : {"a100_sxm_80", "h100_sxm", "b200_sxm", "mi300x"}) {
    for (const char* framework : {"fsdp1", "llm-foundry"})
      files.push_back(
          sample_group(std::string(accelerator) + " " + framework, accelerator, framework, 4));
  }
  return files;
}

std::vector<RunCoefficient> planted() {
  return {{"device", "a100_sxm_80", "training_rate", 1.0, 0.3},
          {"device", "h100_sxm", "training_rate", 1.0, 0.3},
          {"framework", "fsdp1", "efficiency", 0.8, 0.3},
          {"framework", "llm-foundry", "efficiency", 0.8, 0.3}};
}

// Lets the runs have taken what is predicted at `shifts`, times e^noise of the group.
void measure(MeasuredRuns& runs, const std::vector<double>& shifts,
             const std::vector<double>& noise) {
  for (MeasuredRun& run : runs.runs) run.measured = 1.0;
  const std::vector<double> predicted = log_errors(runs, shifts);
  for (std::size_t i = 0; i < predicted.size(); ++i)
    runs.runs[i].measured = std::exp(predicted[i] + noise[runs.runs[i].group]);
}

const std::vector<double> kQuiet(8, 0.0);

TEST(RunFit, RecoversPlantedCoefficientsWithinTheirErrors) {
  MeasuredRuns runs = measured_runs(eight_groups(), planted());
  const std::vector<double> truth = {-0.20, 0.10, -0.15, 0.10};
  measure(runs, truth, {0.06, -0.05, -0.04, 0.06, 0.05, -0.06, -0.05, 0.04});
  const RunFit fit = run_fit(runs);
  for (std::size_t k = 0; k < truth.size(); ++k) {
    EXPECT_NEAR(fit.shifts[k], truth[k], 2.0 * fit.deviations[k]) << k;
    EXPECT_GT(fit.deviations[k], 0.02) << k;
    EXPECT_LT(fit.deviations[k], 0.10) << k;
  }
  EXPECT_NEAR(fit.misfit, 0.05, 0.02);
}

TEST(RunFit, WithoutNoiseAndWithAWidePriorThePlantedValuesAreFoundExactly) {
  MeasuredRuns runs = measured_runs(eight_groups(), planted());
  for (RunCoefficient& c : runs.coefficients) c.spread = 10.0;
  const std::vector<double> truth = {-0.20, 0.10, -0.15, 0.10};
  measure(runs, truth, kQuiet);
  const RunFit fit = run_fit(runs);
  for (std::size_t k = 0; k < truth.size(); ++k) EXPECT_NEAR(fit.shifts[k], truth[k], 1e-3) << k;
}

TEST(RunFit, WithoutRunsThePriorsStay) {
  const MeasuredRuns none{.coefficients = planted(), .groups = {}, .runs = {}};
  const RunFit fit = run_fit(none);
  EXPECT_EQ(fit.shifts, std::vector<double>(4, 0.0));
  for (const double deviation : fit.deviations) EXPECT_NEAR(deviation, 0.3, 1e-12);
}

TEST(RunFit, AStudyCountsOnceHoweverManyRunsItHas) {
  const auto fitted = [](int runs_of_the_second) {
    std::vector files{sample_group("a", "h100_sxm", "fsdp1", 4),
                      sample_group("b", "h100_sxm", "fsdp1", 4)};
    files[1].runs.resize(1);
    for (int i = 0; i < runs_of_the_second; ++i) {
      files[1].runs.push_back(files[1].runs.front());
      files[1].runs.back().id += "+";
    }
    MeasuredRuns runs = measured_runs(files, {{"device", "h100_sxm", "training_rate", 1.0, 0.3}});
    measure(runs, {0.0}, {0.1, -0.1});
    return run_fit(runs, {.misfit = 0.1}).shifts.front();
  };
  EXPECT_NEAR(fitted(3), fitted(39), 1e-6);
}

TEST(RunFit, ABrokenStudyHardlyMovesTheRest) {
  MeasuredRuns runs = measured_runs(eight_groups(), planted());
  const std::vector<double> truth = {-0.20, 0.10, -0.15, 0.10};
  std::vector<double> noise = {0.03, -0.03, -0.03, 0.03, 0.03, -0.03, -0.03, 0.03};
  noise[0] = 3.0;  // twenty times slower than all that is known
  measure(runs, truth, noise);
  const RunFit fit = run_fit(runs);
  for (std::size_t k = 1; k < truth.size(); ++k) EXPECT_NEAR(fit.shifts[k], truth[k], 0.08) << k;
}

TEST(RunFit, AGroupThatIsLeftOutDoesNotCount) {
  MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "fsdp1", 4),
                                                sample_group("b", "h100_sxm", "ddp", 4)},
                                    {{"device", "h100_sxm", "training_rate", 1.0, 0.3}});
  measure(runs, {0.0}, {0.2, 0.0});
  EXPECT_NEAR(run_fit(runs, {.without = 0}).shifts.front(), 0.0, 1e-3);
  EXPECT_LT(run_fit(runs, {.without = 1}).shifts.front(), -0.1);
}

TEST(RunFit, TheErrorsAreThoseOfThePredictedTimes) {
  MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "fsdp1", 1)}, {});
  measure(runs, {}, {-0.25});
  EXPECT_NEAR(log_errors(runs, {}).front(), 0.25, 1e-12);
}

}  // namespace
}  // namespace llmsim::calibrate
