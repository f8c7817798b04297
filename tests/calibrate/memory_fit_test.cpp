#include "calibrate/memory_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "calibrate/backtest.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

hwdb::RunFile peaks_of(const std::string& group, const std::string& framework,
                       const std::string& kind, int count) {
  hwdb::RunFile file = sample_group(group, "h100_sxm", framework, count);
  for (hwdb::RunRecord& record : file.runs) {
    record.measured->peak_memory = 40.0 * sim::GiB;
    record.measured->memory_kind = kind;
    record.scored.memory = true;
  }
  return file;
}

// Lets each peak be e^error of its group times what is predicted with the gaps times `gaps`.
void measure(MeasuredMemory& memory, double gaps, const std::vector<double>& errors) {
  for (MeasuredPeak& peak : memory.peaks) {
    sim::Run run = peak.run;
    run.framework.reserve.gaps_factor *= gaps;
    peak.measured.peak_memory =
        std::exp(errors[peak.group]) * comparable_peak(sim::predict(run).memory, peak.measured);
  }
}

// Twelve studies of three peaks each, whose errors have a standard deviation of `spread`.
MeasuredMemory twelve_studies(const std::string& kind, double gaps, double spread,
                              double bias = 0.0) {
  std::vector<hwdb::RunFile> files;
  for (int i = 0; i < 12; ++i) files.push_back(peaks_of("g" + std::to_string(i), "fsdp2", kind, 3));
  MeasuredMemory memory = measured_memory(files);
  // Normal values at equal steps of probability, mixed.
  const std::vector<double> z = {-1.73, 0.55, 1.15,  -0.32, 0.81,  -0.55,
                                 0.10,  1.73, -1.15, 0.32,  -0.81, -0.10};
  std::vector<double> errors;
  for (const double one : z) errors.push_back(bias + spread * one);
  measure(memory, gaps, errors);
  return memory;
}

const hwdb::Coefficient& row_of(const std::vector<hwdb::Coefficient>& rows, const std::string& id,
                                const std::string& key) {
  return *std::ranges::find_if(
      rows, [&](const hwdb::Coefficient& c) { return c.id == id && c.key == key; });
}

TEST(MeasuredMemory, TakesScoredPeaksAndOutcomesOfRunsThatCanBePredicted) {
  hwdb::RunFile file = peaks_of("a", "fsdp2", "reserved", 4);
  file.runs[0].scored.memory = false;
  file.runs[1].training.strategy["tp"] = 3;  // does not divide the heads
  for (std::size_t i : {2u, 3u}) {
    file.runs[i].scored.outcome = true;
    file.runs[i].measured->outcome = i == 2 ? "oom" : "crash";
  }
  const MeasuredMemory memory = measured_memory(std::vector{file});
  ASSERT_EQ(memory.peaks.size(), 2u);
  EXPECT_EQ(memory.peaks[0].id, "a3");
  ASSERT_EQ(memory.outcomes.size(), 1u);
  EXPECT_EQ(memory.outcomes[0].id, "a3");
  EXPECT_FALSE(memory.outcomes[0].ran);
}

TEST(MeasuredMemory, ResolvesWithoutWhatAnEarlierFitFound) {
  const MeasuredMemory memory = measured_memory(std::vector{peaks_of("a", "fsdp2", "reserved", 1)});
  EXPECT_EQ(memory.peaks[0].run.framework.reserve.gaps_factor, 1.0);
  EXPECT_EQ(memory.peaks[0].run.framework.errors.memory, sim::PredictionErrors().memory);
}

TEST(MemoryFit, RecoversAPlantedSpreadOfStudies) {
  const double narrow = memory_fit(twelve_studies("allocated", 1.0, 0.03)).error_of("pytorch"),
               wide = memory_fit(twelve_studies("allocated", 1.0, 0.6)).error_of("pytorch");
  // Nine studies' worth of 24 % and twelve of 3 %: sqrt((9 * 0.24^2 + 12 * 0.03^2) / 21) = 0.16.
  EXPECT_NEAR(narrow, 0.16, 0.03);
  // Student's scale of normal values is 0.8 of their deviation: the same with 0.48 is 0.40.
  EXPECT_NEAR(wide, 0.40, 0.06);
}

TEST(MemoryFit, RecoversAPlantedGapsFactor) {
  const MemoryFit fit = memory_fit(twelve_studies("reserved", 2.0, 0.005));
  const auto [gaps, error] = fit.gaps_of("pytorch");
  EXPECT_NEAR(gaps, std::log(2.0), 2.0 * error);
  EXPECT_GT(gaps, 0.3);
  EXPECT_EQ(fit.gaps_factor("pytorch"), std::exp(gaps));
  EXPECT_EQ(fit.gaps_factor("maxtext"), 1.0);  // not clear
  // No study of another family: only what all have in common, and less sure.
  const auto [other, other_error] = fit.gaps_of("megatron-lm");
  EXPECT_GT(other, 0.0);
  EXPECT_LT(other, gaps);
  EXPECT_GT(other_error, error);
}

// A study that measures far less than all others moves what all have in common downwards.
TEST(MemoryFit, InfluenceIsWhatAStudyMoves) {
  MeasuredMemory memory = twelve_studies("allocated", 1.0, 0.0);
  std::vector<double> errors(12, 0.0);
  errors[3] = -0.5;
  measure(memory, 1.0, errors);
  const MemoryFit fit = memory_fit(memory);
  ASSERT_EQ(fit.groups.size(), 12u);
  EXPECT_EQ(fit.groups[3], "g3");
  ASSERT_EQ(fit.influence.size(), fit.effects.size());
  for (std::size_t k = 0; k < fit.effects.size(); ++k) {
    if (fit.effects[k].level != MemoryLevel::All) continue;
    EXPECT_LT(fit.influence[k][3], 0.0);
    for (const std::size_t g : {0u, 1u, 2u, 4u, 11u})
      EXPECT_LT(3.0 * std::abs(fit.influence[k][g]), -fit.influence[k][3]) << g;
  }
}

TEST(MemoryFit, AllocatedPeaksSayNothingOfGaps) {
  const MemoryFit fit = memory_fit(twelve_studies("allocated", 2.0, 0.05, 0.1));
  EXPECT_NEAR(fit.gaps_of("pytorch").first, 0.0, 1e-9);
}

// What was planted is what every peak is found to be off by: allocated ones have no gaps that a fit
// could take for it.
TEST(MemoryFit, ErrorsAreThoseOfEveryPeak) {
  const MeasuredMemory memory = twelve_studies("allocated", 1.0, 0.1);
  const MemoryFit fit = memory_fit(memory);
  ASSERT_EQ(fit.before.size(), 36u);
  for (std::size_t i = 0; i < memory.peaks.size(); ++i) {
    const MeasuredPeak& peak = memory.peaks[i];
    const double error = std::log(comparable_peak(sim::predict(peak.run).memory, peak.measured) /
                                  *peak.measured.peak_memory);
    EXPECT_NEAR(fit.before[i], error, 1e-9) << i;
    EXPECT_NEAR(fit.fitted[i], error, 1e-9) << i;
    EXPECT_NEAR(fit.left_out[i], error, 1e-9) << i;
    EXPECT_NEAR(fit.deviations[i] / fit.error_of("pytorch"), 1.0, 0.05) << i;
  }
}

// Twice the gaps in every study, where what follows from the fit is nearly right.
TEST(MemoryFit, FittedGapsBringPeaksCloser) {
  const MeasuredMemory memory = twelve_studies("reserved", 2.0, 0.002);
  const MemoryFit fit = memory_fit(memory);
  for (std::size_t i = 0; i < memory.peaks.size(); ++i) {
    EXPECT_LT(fit.before[i], -0.01) << i;
    EXPECT_LT(std::abs(fit.fitted[i]), 0.5 * std::abs(fit.before[i])) << i;
    EXPECT_LT(std::abs(fit.left_out[i]), 0.6 * std::abs(fit.before[i])) << i;
  }
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  const hwdb::Coefficient& gaps = row_of(rows, "pytorch", "reserve.gaps_factor");
  EXPECT_NEAR(gaps.value, fit.gaps_factor("pytorch"), 5e-3);  // three digits
  EXPECT_NEAR(*gaps.standard_error, gaps.value * fit.gaps_of("pytorch").second, 1e-3);
  EXPECT_TRUE(gaps.fitted_from.starts_with(std::string(kMemoryFit) + "12 groups"))
      << gaps.fitted_from;
  EXPECT_EQ(gaps.fitted_from.find("not clearly"), std::string::npos);
  const hwdb::Coefficient& other = row_of(rows, "maxtext", "reserve.gaps_factor");
  EXPECT_EQ(other.value, 1.0);
  EXPECT_TRUE(other.fitted_from.ends_with("; not clearly different from 1, which stays"));
  // Without outcomes what is needed is as uncertain as peaks are.
  EXPECT_EQ(row_of(rows, "pytorch", "errors.needed_memory").value,
            row_of(rows, "pytorch", "errors.memory").value);
}

// Outcomes are held against the prediction with its fitted gaps and errors, of which a study has its
// share in common.
TEST(MemoryFit, OutcomesAreThoseOfItsErrors) {
  MeasuredMemory memory = twelve_studies("allocated", 1.0, 0.1);
  for (const double capacity : {0.9, 1.3}) {
    MeasuredOutcome outcome{.id = "o", .group = 2, .run = memory.peaks[0].run, .ran = false};
    const sim::Memory predicted = sim::predict(outcome.run).memory;
    outcome.run.cluster.device.usable_memory = capacity * predicted.needed();
    outcome.ran = capacity > 1.0;
    memory.outcomes.push_back(outcome);
  }
  const MemoryFit fit = memory_fit(memory);
  const auto square = [](double x) { return x * x; };
  const double study = square(fit.spread(MemoryLevel::Study)),
               row = square(fit.spread(MemoryLevel::Cell)) + square(fit.fit.noise);
  const double error = fit.error_of("pytorch");
  const OutcomeFit expected =
      outcome_fit({{.group = 2, .room = std::log(0.9), .scale = error, .ran = false},
                   {.group = 2, .room = std::log(1.3), .scale = error, .ran = true}},
                  {.study_share = study / (study + row)});
  EXPECT_EQ(fit.outcomes.studies, 1);
  EXPECT_NEAR(fit.outcomes.location, expected.location, 1e-9);
  EXPECT_NEAR(fit.outcomes.log_scale, expected.log_scale, 1e-9);
  EXPECT_NEAR(fit.outcomes.log_scale_error, expected.log_scale_error, 1e-9);
  EXPECT_NEAR(fit.needed_error_of("pytorch"), error * std::exp(expected.log_scale), 1e-9);
}

// A common error moves no peak, but stands in the error.
TEST(MemoryFit, ABiasOfAllPeaksIsPartOfTheError) {
  const MemoryFit biased = memory_fit(twelve_studies("allocated", 1.0, 0.03, 0.15));
  EXPECT_GT(biased.error_of("pytorch"),
            memory_fit(twelve_studies("allocated", 1.0, 0.03)).error_of("pytorch"));
  for (const double left_out : biased.left_out) EXPECT_LT(left_out, -0.05);
}

TEST(MemoryFit, WithoutPeaksThePriorsStayAndUnknownFamiliesAreAlike) {
  const MemoryFit fit = memory_fit({});
  // 3 % of all and of a family, 24 of a study, 4 of a kind of peaks, 3 of a peak, in squares.
  const double error = std::sqrt(0.0009 + 0.0009 + 0.0576 + 0.0016 + 0.0009);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(fit);
  EXPECT_NEAR(row_of(rows, "pytorch", "errors.memory").value, error, 1e-3);
  EXPECT_EQ(row_of(rows, "pytorch", "reserve.gaps_factor").value, 1.0);
  // 30 % of all and 40 % of a family.
  EXPECT_NEAR(*row_of(rows, "pytorch", "reserve.gaps_factor").standard_error, 0.5, 1e-9);
}

TEST(MemoryFit, AFamilyThatNobodyMeasuredIsLessSure) {
  const MemoryFit fit = memory_fit(twelve_studies("allocated", 1.0, 0.05));
  EXPECT_LT(fit.error_of("pytorch"), fit.error_of("megatron-lm"));
}

}  // namespace
}  // namespace llmsim::calibrate
