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
