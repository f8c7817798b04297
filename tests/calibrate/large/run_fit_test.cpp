#include "calibrate/run_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "calibrate/statistics.h"
#include "hwdb/frameworks/frameworks.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

using Slopes = std::vector<std::pair<std::size_t, double>>;

// Logarithms of what efficiencies of frameworks and rates of devices are above their priors.
using Truth = std::map<std::string, double>;

// Lets the runs have taken what is predicted at the truth, times e^noise of the group.
void measure(MeasuredRuns& runs, const Truth& truth, const std::vector<double>& noise) {
  const auto factor = [&](const std::string& id) {
    const auto found = truth.find(id);
    return found == truth.end() ? 1.0 : std::exp(found->second);
  };
  for (MeasuredRun& measured : runs.runs) {
    sim::Run run = measured.run;
    run.framework.efficiency *= factor(run.framework.id);
    run.cluster.device.achieved.training_rate *= factor(run.cluster.device.id);
    measured.measured =
        sim::predict(run).step_time.value() * std::exp(noise.empty() ? 0.0 : noise[measured.group]);
  }
}

// Frameworks that are like no other, and accelerators of different makers.
const std::vector<std::string> kDevices = {"a100_sxm_80", "h100_sxm", "b200_sxm", "mi300x"};
const std::vector<std::string> kFrameworks = {"pytorch", "megatron-lm"};

// Each device under each framework, a group of three runs each.
MeasuredRuns eight_groups() {
  std::vector<hwdb::RunFile> files;
  for (const std::string& device : kDevices) {
    for (const std::string& framework : kFrameworks)
      files.push_back(sample_group(device + " " + framework, device, framework, 3));
  }
  return measured_runs(files);
}

std::size_t effect(const RunFit& fit, Level level, const std::string& id) {
  for (std::size_t k = 0; k < fit.effects.size(); ++k)
    if (fit.effects[k].level == level && fit.effects[k].id == id) return k;
  ADD_FAILURE() << name_of(level) << " " << id << ": no such effect";
  return 0;
}

// Effects whose sum is by how much one framework is more efficient, or one device faster, than
// another.
Slopes between_frameworks(const RunFit& fit, const std::string& a, const std::string& b) {
  return {{effect(fit, Level::Framework, a), 1.0}, {effect(fit, Level::Framework, b), -1.0}};
}

Slopes between_devices(const RunFit& fit, const std::string& a, const std::string& a_architecture,
                       const std::string& b, const std::string& b_architecture) {
  return {{effect(fit, Level::Device, a), 1.0},
          {effect(fit, Level::Architecture, a_architecture), 1.0},
          {effect(fit, Level::Device, b), -1.0},
          {effect(fit, Level::Architecture, b_architecture), -1.0}};
}

void expect_within_two_deviations(const MixedFit& fit, const Slopes& slopes, double truth) {
  EXPECT_NEAR(fit.mean_of(slopes), truth, 2.0 * std::sqrt(fit.variance_of(slopes)));
}

const hwdb::Coefficient* row(const std::vector<hwdb::Coefficient>& rows, const std::string& id,
                             const std::string& key) {
  const auto found = std::ranges::find_if(
      rows, [&](const hwdb::Coefficient& c) { return c.id == id && c.key == key; });
  return found == rows.end() ? nullptr : &*found;
}

TEST(RunFit, RecoversPlantedDifferencesWithinTheirErrors) {
  MeasuredRuns runs = eight_groups();
  measure(runs, {{"pytorch", -0.15}, {"megatron-lm", 0.05}, {"a100_sxm_80", -0.1}, {"mi300x", 0.1}},
          {0.04, -0.03, -0.03, 0.04, 0.03, -0.04, -0.03, 0.03});
  const RunFit fit = run_fit(runs);
  const Slopes frameworks = between_frameworks(fit, "pytorch", "megatron-lm");
  expect_within_two_deviations(fit.fit, frameworks, -0.20);
  EXPECT_LT(fit.fit.mean_of(frameworks), -0.05);
  const Slopes devices = between_devices(fit, "a100_sxm_80", "Ampere", "mi300x", "CDNA3");
  expect_within_two_deviations(fit.fit, devices, -0.20);
  EXPECT_LT(fit.fit.mean_of(devices), -0.05);
}

// A vocabulary of odd size, under GEMMs at half the rate that single shapes show: runs with an even
// one beside them tell it from everything else.
TEST(RunFit, RecoversWhatMisalignedGemmsLose) {
  std::vector<hwdb::RunFile> files{sample_group("even", "a100_sxm_80", "pytorch", 6)};
  for (std::size_t i = 0; i < 3; ++i) files.front().runs[i].model.fields["vocab_size"] = 128255;
  MeasuredRuns runs = measured_runs(files);
  for (MeasuredRun& measured : runs.runs) {
    sim::Run run = measured.run;
    run.framework.misaligned_gemm_rate = 0.5;
    measured.measured = sim::predict(run).step_time.value();
  }
  const RunFit fit = run_fit(runs);
  const Slopes rate{{effect(fit, Level::MisalignedGemms, ""), 1.0}};
  expect_within_two_deviations(fit.fit, rate, std::log(0.5));
  EXPECT_LT(fit.fit.mean_of(rate), std::log(0.7));
  EXPECT_EQ(fit.fit.means[effect(fit, Level::MisalignedBatches, "")], 0.0);
}

TEST(RunFit, ErrorsAreOfThePredictionAndShrinkWithTheFit) {
  MeasuredRuns runs = eight_groups();
  measure(runs, {}, std::vector<double>(8, 0.25));  // all slower than predicted
  const RunFit fit = run_fit(runs);
  ASSERT_EQ(fit.fitted.size(), runs.runs.size());
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    EXPECT_NEAR(fit.before[i], -0.25, 1e-9) << i;
    EXPECT_LT(std::abs(fit.fitted[i]), 0.125) << i;  // half
    EXPECT_LE(std::abs(fit.fitted[i]), std::abs(fit.left_out[i]) + 1e-3) << i;
  }
}

// Each factor multiplies what it is named for, and nothing else.
TEST(RunFactors, MultiplyOneValueEach) {
  const MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "pytorch", 1)});
  MeasuredRun measured = runs.runs.front();
  measured.run.framework.host.per_moe_block = sim::Seconds(3e-3);
  measured.run.framework.host.per_low_precision_gemm = sim::Seconds(5e-6);
  const auto values = [](const sim::Run& run) {
    const sim::Framework& f = run.framework;
    return std::vector<double>{f.efficiency,
                               run.cluster.device.achieved.training_rate,
                               f.collective_efficiency,
                               f.host.factor,
                               f.host.per_moe_block.value(),
                               f.host.per_low_precision_gemm.value(),
                               f.host.per_step.value(),
                               f.misaligned_gemm_rate,
                               f.misaligned_batch_rate,
                               run.cluster.device.achieved.memory_fraction};
  };
  const std::vector<double> before = values(measured.run);
  for (std::size_t k = 0; k < kRunFactors; ++k) {
    RunFactors factors{};
    factors[k] = 0.25;
    const std::vector<double> after = values(fitted_run(measured, factors));
    for (std::size_t i = 0; i < kRunFactors; ++i) {
      EXPECT_GT(before[i], 0.0) << i;
      EXPECT_DOUBLE_EQ(after[i] / before[i], i == k ? std::exp(0.25) : 1.0) << k << " " << i;
    }
  }
}

// Four runs of each study in one cell, which scatter by as much or as little.
RunFit of_scatter(const std::vector<double>& scatters, int runs_of_each) {
  std::vector<hwdb::RunFile> files;
  for (std::size_t g = 0; g < scatters.size(); ++g)
    files.push_back(sample_group("g" + std::to_string(g), "h100_sxm", "pytorch", runs_of_each));
  MeasuredRuns runs = measured_runs(files);
  std::size_t place = 0;
  for (MeasuredRun& run : runs.runs) {
    const double noise[] = {1.0, -1.0, -1.0, 1.0};
    run.measured =
        sim::predict(run.run).step_time.value() *
        std::exp(scatters[run.group] * noise[place++ % static_cast<std::size_t>(runs_of_each)]);
  }
  return run_fit(runs);
}

// Of variances a^2 4 / 3 of three degrees each.  Of three runs in a cell two are left, too few.
TEST(RunFit, StudiesThatScatterAlikeShareTheirNoise) {
  const std::vector<double> scatters = {0.02, 0.06, 0.2, 0.03, 0.15, 0.05};
  std::vector<GroupVariance> variances;
  for (const double a : scatters) variances.push_back({a * a * 4.0 / 3.0, 3.0});
  const double expected = shared_degrees(variances);
  EXPECT_LT(expected, 20.0);
  EXPECT_NEAR(of_scatter(scatters, 4).noise_runs / expected, 1.0, 0.15);
  EXPECT_EQ(of_scatter({0.05, 0.05, 0.05}, 4).noise_runs > 50.0, true);
  EXPECT_EQ(of_scatter(scatters, 3).noise_runs, sim::PredictionErrors{}.noise_runs);
  EXPECT_EQ(of_scatter({0.05}, 4).noise_runs, sim::PredictionErrors{}.noise_runs);
}

TEST(RunFit, WithoutRunsThePriorsStay) {
  const RunFit fit = run_fit(MeasuredRuns{});
  for (std::size_t k = 0; k < fit.effects.size(); ++k) {
    EXPECT_EQ(fit.fit.means[k], 0.0);
    EXPECT_NEAR(fit.fit.deviation(k), fit.spread(fit.effects[k].level), 1e-9);
  }
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const hwdb::Frameworks frameworks = hwdb::Frameworks::shipped();
  EXPECT_EQ(row(rows, "h100_sxm", "training_rate")->value, 1.0);
  EXPECT_EQ(row(rows, "pytorch", "efficiency")->value, 1.0);
  // 10 % of all and 10 % of one, in squares.
  EXPECT_NEAR(*row(rows, "pytorch", "collective_efficiency")->standard_error, 0.141, 1e-9);
  EXPECT_EQ(row(rows, "pytorch", "host.factor")->value, 1.0);
  EXPECT_EQ(row(rows, "pytorch", "host.per_step")->value,
            frameworks.number("pytorch", "host.per_step"));
}

// Runs of studies a and b, on one device and framework, which took e^0.1 and e^-0.1 times what is
// predicted.
RunFit two_studies(int runs_of_the_second) {
  std::vector files{sample_group("a", "h100_sxm", "pytorch", 2),
                    sample_group("b", "h100_sxm", "pytorch", 1)};
  while (files[1].runs.size() < static_cast<std::size_t>(runs_of_the_second)) {
    files[1].runs.push_back(files[1].runs.front());
    files[1].runs.back().id += "+";
  }
  MeasuredRuns runs = measured_runs(files);
  measure(runs, {}, {0.1, -0.1});
  return run_fit(runs);
}

// A row more or less counts only by the noise of a study's mean.
TEST(RunFit, AStudyCountsOnceHoweverManyRunsItHas) {
  const auto efficiency = [](int runs) {
    const RunFit fit = two_studies(runs);
    return fit.fit.mean_of({{effect(fit, Level::AllEfficiency, ""), 1.0},
                            {effect(fit, Level::Framework, "pytorch"), 1.0}});
  };
  EXPECT_NEAR(efficiency(4), efficiency(40), 0.01);
  EXPECT_LT(std::abs(efficiency(40)), 0.02);  // one vote each
}

TEST(RunFit, ABrokenStudyHardlyMovesTheRest) {
  MeasuredRuns sound = eight_groups(), broken = eight_groups();
  std::vector<double> noise = {0.03, -0.03, -0.03, 0.03, 0.03, -0.03, -0.03, 0.03};
  measure(sound, {}, noise);
  noise[0] = 3.0;  // twenty times slower than all that is known
  measure(broken, {}, noise);
  const RunFit before = run_fit(sound), after = run_fit(broken);
  for (std::size_t k = 0; k < before.effects.size(); ++k) {
    if (before.effects[k].level == Level::Study || before.effects[k].level == Level::Cell) continue;
    EXPECT_NEAR(after.fit.means[k], before.fit.means[k], 0.05)
        << name_of(before.effects[k].level) << " " << before.effects[k].id;
  }
}

TEST(RunFit, AFrameworkHasTheEffectsOfThoseItIsLike) {
  // Fsdp1 is like pytorch and fsdp2 like fsdp1; megatron-lm is like none.
  MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "fsdp1", 3),
                                                sample_group("b", "a100_sxm_80", "fsdp1", 3)});
  measure(runs, {{"fsdp1", -0.3}}, {});
  const RunFit fit = run_fit(runs);
  EXPECT_LT(fit.fit.means[effect(fit, Level::Framework, "fsdp1")], -0.02);
  EXPECT_EQ(fit.fit.means[effect(fit, Level::Framework, "fsdp2")], 0.0);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const double shared = row(rows, "fsdp1", "efficiency")->value;
  EXPECT_EQ(row(rows, "fsdp2", "efficiency")->value, shared);
  EXPECT_LT(shared, row(rows, "pytorch", "efficiency")->value);
  // Only `all frameworks` reaches megatron-lm.
  EXPECT_NEAR(row(rows, "megatron-lm", "efficiency")->value,
              std::exp(fit.fit.means[effect(fit, Level::AllEfficiency, "")]), 5e-3);
  // Fsdp2 may differ from fsdp1, of which more is known.
  EXPECT_LT(row(rows, "fsdp1", "errors.efficiency")->value,
            row(rows, "fsdp2", "errors.efficiency")->value);
}

TEST(RunFit, ADeviceNobodyMeasuredFollowsItsArchitectureWithLessCertainty) {
  MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "pytorch", 3),
                                                sample_group("b", "a100_sxm_80", "pytorch", 3),
                                                sample_group("c", "h100_sxm", "megatron-lm", 3)});
  measure(runs, {{"h100_sxm", 0.2}}, {});
  const RunFit fit = run_fit(runs);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const auto rate = [&](const char* id) { return row(rows, id, "training_rate")->value; };
  const auto error = [&](const char* id) { return row(rows, id, "training_rate_error")->value; };
  EXPECT_GT(rate("h100_sxm"), rate("h200_sxm"));  // Hopper too
  EXPECT_GT(rate("h200_sxm"), 1.0);
  EXPECT_EQ(rate("mi300x"), 1.0);
  EXPECT_LT(error("h100_sxm"), error("h200_sxm"));
  EXPECT_LT(error("h200_sxm"), error("mi300x"));  // neither its architecture
  EXPECT_NEAR(error("mi300x"),
              std::hypot(fit.spread(Level::Architecture), fit.spread(Level::Device)), 1e-4);
}

// Runs of one study under two frameworks, of which one takes longer there than elsewhere.
TEST(RunFit, CellsOfAStudyDiffer) {
  hwdb::RunFile file = sample_group("a", "h100_sxm", "pytorch", 4);
  for (std::size_t i = 2; i < 4; ++i) file.runs[i].training.strategy["precision"] = "fp16";
  MeasuredRuns runs = measured_runs(std::vector{file, sample_group("b", "h100_sxm", "pytorch", 4)});
  for (std::size_t i = 0; i < runs.runs.size(); ++i)
    runs.runs[i].measured =
        sim::predict(runs.runs[i].run).step_time.value() * (i == 2 || i == 3 ? 1.2 : 1.0);
  const RunFit fit = run_fit(runs);
  double slow = 0.0, sound = 0.0;
  for (std::size_t k = 0; k < fit.effects.size(); ++k) {
    if (fit.effects[k].level != Level::Cell) continue;
    (fit.effects[k].id.ends_with("fp16") ? slow : sound) += fit.fit.means[k];
  }
  EXPECT_GT(slow, 0.05);
  EXPECT_LT(sound, 0.01);
}

TEST(RunFit, AStudyIsPredictedByTheOthers) {
  MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "pytorch", 2),
                                                sample_group("b", "h100_sxm", "pytorch", 2),
                                                sample_group("c", "h100_sxm", "pytorch", 2)});
  measure(runs, {}, {0.2, 0.0, 0.0});
  const RunFit fit = run_fit(runs);
  EXPECT_NEAR(fit.left_out[0], -0.2, 1e-3);  // b and c are as predicted
  EXPECT_GT(fit.left_out[2], 0.005);         // a is slow, so c is expected to be
  // By itself, a study that is left out has the spreads of study, cell and run.
  const double own = std::hypot(fit.spread(Level::Study), fit.spread(Level::Cell), fit.fit.noise);
  EXPECT_GT(fit.deviations[0], own);
  // The study that differs moves the efficiency of all most.
  const std::size_t all = effect(fit, Level::AllEfficiency, "");
  EXPECT_EQ(fit.influence[all].front().group, "a");
  EXPECT_LT(fit.influence[all].front().shift, 0.0);
}

TEST(RunFit, StudiesWithExpertsOrContextRanksHaveASpreadOfTheirOwn) {
  hwdb::RunFile file = sample_group("a", "h100_sxm", "fsdp2", 4);
  for (std::size_t i = 2; i < 4; ++i) file.runs[i].training.strategy["cp"] = 2;
  MeasuredRuns runs = measured_runs(std::vector{file});
  measure(runs, {}, {0.1});
  const RunFit fit = run_fit(runs);
  EXPECT_GT(fit.spread(Level::MoeStudy), fit.spread(Level::Study));
  EXPECT_LT(fit.fit.means[effect(fit, Level::Study, "a")],
            fit.fit.means[effect(fit, Level::MoeStudy, "a")]);
}

TEST(FittedRows, AreRoundedAndSayWhatMovedThem) {
  const RunFit fit = two_studies(2);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const hwdb::Coefficient& efficiency = *row(rows, "pytorch", "efficiency");
  EXPECT_EQ(efficiency.evidence, sim::Evidence::Fitted);
  EXPECT_EQ(efficiency.fitted_from.rfind(std::string(kRunFit) + "2 groups: ", 0), 0u)
      << efficiency.fitted_from;
  EXPECT_NE(efficiency.fitted_from.find("a -"), std::string::npos) << efficiency.fitted_from;
  EXPECT_NE(efficiency.fitted_from.find("b +"), std::string::npos) << efficiency.fitted_from;
  EXPECT_EQ(efficiency.value, std::round(efficiency.value * 1000.0) / 1000.0);
  // Standard error of the value, error of its logarithm, each with three digits.
  EXPECT_NEAR(*efficiency.standard_error,
              efficiency.value * row(rows, "pytorch", "errors.efficiency")->value, 1.5e-3);
}

// Tails are how far a prediction may be off either way: none where they would lie on the other side.
TEST(FittedRows, HaveTheTailsAndTheErrorsOfTheirLevels) {
  RunFit fit = run_fit(MeasuredRuns{});
  fit.noise_runs = 3.5;
  fit.quantiles = {-1.25, 2.25};
  fit.site_quantiles = {.few = {-1.5, 2.5}, .some = {-1.75, 2.75}};
  std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const auto value = [&](const char* key) { return row(rows, "pytorch", key)->value; };
  EXPECT_EQ(value("errors.noise_runs"), 3.5);
  EXPECT_EQ(value("errors.faster"), 1.25);
  EXPECT_EQ(value("errors.slower"), 2.25);
  EXPECT_EQ(value("errors.few_faster"), 1.5);
  EXPECT_EQ(value("errors.few_slower"), 2.5);
  EXPECT_EQ(value("errors.site_faster"), 1.75);
  EXPECT_EQ(value("errors.site_slower"), 2.75);
  // A study's with those of all and of the framework, in squares (README.md has the spreads).
  EXPECT_NEAR(value("errors.collectives"), std::sqrt(0.2 * 0.2 + 0.1 * 0.1 + 0.1 * 0.1), 1e-3);
  EXPECT_NEAR(value("errors.hosts"), std::sqrt(0.3 * 0.3 + 0.3 * 0.3 + 0.3 * 0.3), 1e-3);
  EXPECT_NEAR(value("errors.efficiency"), std::hypot(0.15, 0.08), 1e-3);
  EXPECT_NEAR(value("errors.site"), 0.1, 1e-3);
  EXPECT_NEAR(value("errors.moe_site"), 0.2, 1e-3);
  EXPECT_NEAR(value("errors.cell"), 0.05, 1e-3);
  EXPECT_NEAR(row(rows, "h100_sxm", "training_rate_error")->value, std::hypot(0.06, 0.06), 1e-3);
  for (const char* key : {"efficiency", "collective_efficiency", "host.factor",
                          "misaligned_gemm_rate", "misaligned_batch_rate"})
    EXPECT_EQ(value(key), 1.0) << key;
  fit.quantiles = {0.5, -0.5};
  fit.site_quantiles = {.few = {0.5, -0.5}, .some = {0.5, -0.5}};
  rows = fitted_rows(fit);
  for (const char* key :
       {"faster", "slower", "few_faster", "few_slower", "site_faster", "site_slower"})
    EXPECT_EQ(value((std::string("errors.") + key).c_str()), 0.0) << key;
}

// Of effects that only runs have: nothing tells of them here, so that they are as wide as before.
TEST(FittedRows, HaveTheErrorsOfWhatNoRunTells) {
  const RunFit fit = two_studies(2);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const auto error = [&](const char* key) { return *row(rows, "pytorch", key)->standard_error; };
  EXPECT_NEAR(error("misaligned_gemm_rate"), 0.5, 1e-2);
  EXPECT_NEAR(error("misaligned_batch_rate"), 1.2, 1e-2);
  EXPECT_NEAR(row(rows, "pytorch", "errors.between_steps")->value, std::hypot(0.7, 0.35), 5e-2);
}

TEST(FittedRows, SayWhichStudyMovedAValueAndHowFar) {
  const RunFit fit = two_studies(2);
  const hwdb::Coefficient rate = *row(fitted_rows(fit), "h100_sxm", "training_rate");
  double shift = 0.0;
  for (const auto& [level, id] :
       {std::pair(Level::Architecture, "Hopper"), std::pair(Level::Device, "h100_sxm")})
    for (const Influence& one : fit.influence[effect(fit, level, id)])
      if (one.group == "a") shift += one.shift;
  char text[32];
  std::snprintf(text, sizeof text, "a %+.1f %%", 100.0 * shift);
  EXPECT_NE(rate.fitted_from.find(text), std::string::npos) << rate.fitted_from << ", " << text;
}

TEST(FittedRows, ErrorsOfRunsStandAtTheFrameworksThatAreLikeNoOther) {
  const RunFit fit = two_studies(2);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  EXPECT_EQ(row(rows, "fsdp1", "errors.site"), nullptr);
  ASSERT_NE(row(rows, "megatron-lm", "errors.site"), nullptr);
  EXPECT_NEAR(row(rows, "pytorch", "errors.site")->value, fit.spread(Level::Study), 1e-3);
  EXPECT_NEAR(row(rows, "pytorch", "errors.moe_site")->value, fit.spread(Level::MoeStudy), 1e-3);
  EXPECT_NEAR(row(rows, "pytorch", "errors.cell")->value, fit.spread(Level::Cell), 1e-3);
  EXPECT_NEAR(row(rows, "pytorch", "errors.run")->value, fit.fit.noise, 1e-3);
  EXPECT_NEAR(row(rows, "pytorch", "errors.slower")->value, fit.quantiles.second, 5e-3);
  EXPECT_NEAR(row(rows, "pytorch", "errors.faster")->value, -fit.quantiles.first, 5e-3);
}

}  // namespace
}  // namespace llmsim::calibrate
