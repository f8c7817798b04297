#include "calibrate/site_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "calibrate/backtest.h"
#include "calibrate/site_fit.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/site.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_runs.h"
#include "tests/error_of.h"

namespace llmsim::calibrate {
namespace {

const hwdb::Database& shipped_facts() {
  static const hwdb::Database shipped(":memory:");
  return shipped;
}

// What is true of a cluster: ln of factors.
struct Truth {
  double allocated = 0.0, gaps = 0.0, context = 0.0;
};

// A run of the sample whose peak is e^allocated of the predicted one, gaps and context turned.
SitePeak peak_of(int micro_batch, const std::string& kind, const Truth& truth) {
  hwdb::RunRecord record = sample_record("a", "h100_sxm", "pytorch", 64);
  record.training.strategy["micro_batch"] = micro_batch;
  record.measured->memory_kind = kind;
  SitePeak peak{.id = kind + std::to_string(micro_batch),
                .run = hwdb::RunResolver(shipped_facts()).resolve(record),
                .measured = *record.measured};
  sim::Run turned = peak.run;
  turned.framework.reserve.gaps_factor *= std::exp(truth.gaps);
  sim::Device& device = turned.cluster.device;
  device.context_memory = std::exp(truth.context) * device.context_memory;
  device.communicator_memory = std::exp(truth.context) * device.communicator_memory;
  const sim::Memory memory = sim::predict(turned).memory;
  const sim::Bytes context = kind == "device" ? memory.context : sim::Bytes(0.0);
  peak.measured.peak_memory =
      std::exp(truth.allocated) * (comparable_peak(memory, peak.measured) - context) + context;
  return peak;
}

sim::Memory memory_at(const SitePeak& of, const hwdb::SiteMemory& memory) {
  hwdb::Site site;
  site.memory = memory;
  sim::Run run = of.run;
  hwdb::apply(site, hwdb::Frameworks::shipped(), run);
  return sim::predict(run).memory;
}

double error_at(const SitePeak& of, const hwdb::SiteMemory& memory) {
  return std::log(comparable_peak(memory_at(of, memory), of.measured) / *of.measured.peak_memory);
}

TEST(SiteSpreads, WithoutPeaksTheErrorIsThatOfAnUnknownStudy) {
  const sim::PeakSpreads spreads = site_spreads(0.2);
  EXPECT_NEAR(peak_correction({}, spreads, {}).largest_error({}), 0.2, 1e-12);
  EXPECT_NEAR(expected_residual({}, spreads, {}).deviation, 0.2, 1e-12);
}

// 0.2^2 = v + noise^2: v = 0.0375, noise^2 = 0.0025.
TEST(SiteMemoryFit, OneRunMovesByPriorOverPriorAndNoise) {
  SitePeak peak = peak_of(1, "allocated", {.allocated = 0.12});
  peak.run.framework.errors.memory = 0.2;
  const SiteMemoryFit fit = fit_site_memory({peak});
  const double moved = 0.12 * 0.0375 / 0.04;
  EXPECT_NEAR(std::log(fit.rows[0].after / fit.rows[0].before), moved, 1e-9);
  EXPECT_NEAR(error_at(peak, fit.memory), moved - 0.12, 1e-9);
  EXPECT_NEAR(fit.prior_error, 0.2, 1e-12);
  EXPECT_NEAR(std::pow(fit.error, 2), 0.0375 * 0.0025 / 0.04 + 0.0025, 1e-12);
  EXPECT_NEAR(memory_at(peak, fit.memory).error, fit.error, 0.05);
  EXPECT_NEAR(fit.rows[0].deviations, (0.12 - moved) / 0.05, 1e-9);
}

TEST(SiteMemoryFit, APredictionWithTheSiteIsWhatTheFitSays) {
  for (const char* kind : {"allocated", "reserved", "device"}) {
    const std::vector<SitePeak> peaks{peak_of(1, kind, {.allocated = 0.1, .gaps = 0.3}),
                                      peak_of(2, kind, {.allocated = 0.15, .context = 0.3}),
                                      peak_of(8, kind, {.allocated = -0.1})};
    const SiteMemoryFit fit = fit_site_memory(peaks);
    for (std::size_t i = 0; i < peaks.size(); ++i)
      EXPECT_NEAR(
          comparable_peak(memory_at(peaks[i], fit.memory), peaks[i].measured) / fit.rows[i].after,
          1.0, 1e-3)
          << fit.rows[i].id;
  }
}

TEST(SiteMemoryFit, APlantedFactorIsRecovered) {
  std::vector<SitePeak> peaks;
  for (const int micro_batch : {1, 2, 8})
    peaks.push_back(peak_of(micro_batch, "allocated", {.allocated = 0.25}));
  const SiteMemoryFit fit = fit_site_memory(peaks);
  const SitePeak other = peak_of(4, "allocated", {.allocated = 0.25});
  EXPECT_NEAR(error_at(other, {}), -0.25, 1e-9);
  EXPECT_NEAR(error_at(other, fit.memory), 0.0, 0.02);
  EXPECT_NEAR(error_at(peak_of(4, "reserved", {.allocated = 0.25}), fit.memory), 0.0, 0.02);
  EXPECT_LT(memory_at(other, fit.memory).error, 0.7 * other.run.framework.errors.memory);
}

// Peaks of both kinds of the same runs tell the gaps from what is allocated.
TEST(SiteMemoryFit, GapsAndContextAreToldFromWhatIsAllocated) {
  const Truth truth{.allocated = 0.0, .gaps = 0.4, .context = 0.5};
  std::vector<SitePeak> peaks;
  for (const int micro_batch : {1, 2, 4, 8})
    for (const char* kind : {"allocated", "reserved", "device"})
      peaks.push_back(peak_of(micro_batch, kind, truth));
  const SiteMemoryFit fit = fit_site_memory(peaks);
  const sim::PeakCorrection known =
      peak_correction(fit.memory.peaks, fit.memory.spreads, peak_problem(peaks.front().run));
  EXPECT_NEAR(known.log_factor(traits_of(peaks.front().run.strategy)), 0.0, 0.02);
  EXPECT_GT(known.log_gaps, 0.2);
  EXPECT_GT(known.log_context, 0.02);
}

TEST(SiteMemoryFit, AllocatedPeaksSayNothingOfGaps) {
  const SiteMemoryFit fit = fit_site_memory({peak_of(1, "allocated", {.allocated = 0.2})});
  EXPECT_EQ(peak_correction(fit.memory.peaks, fit.memory.spreads, {}).log_gaps, 0.0);
}

TEST(SiteMemoryFit, ABrokenPeakHardlyCounts) {
  std::vector<SitePeak> peaks;
  for (const int micro_batch : {1, 1, 2, 2, 4, 4})
    peaks.push_back(peak_of(micro_batch, "allocated", {.allocated = 0.1}));
  const SitePeak other = peak_of(8, "allocated", {.allocated = 0.1});
  const double before = error_at(other, fit_site_memory(peaks).memory);
  peaks.push_back(peak_of(2, "allocated", {.allocated = 1.5}));
  const SiteMemoryFit fit = fit_site_memory(peaks);
  EXPECT_NEAR(error_at(other, fit.memory), before, 0.02);
  EXPECT_GT(fit.rows.back().deviations, 3.0);
  EXPECT_GT(fit.memory.peaks.back().noise, 3.0 * fit.memory.peaks.front().noise);
}

TEST(SiteMemoryFit, WithoutPeaksItIsEmpty) {
  EXPECT_TRUE(fit_site_memory({}).memory.empty());
  EXPECT_TRUE(fit_site_memory({}).rows.empty());
}

TEST(SitePeaks, AreThoseThatAreScoredWhereSomeAre) {
  hwdb::RunFile file = sample_group("ours", "h100_sxm", "pytorch", 3);
  EXPECT_TRUE(site_peaks(std::vector{file}, shipped_facts()).empty());
  for (std::size_t i : {0U, 1U}) file.runs[i].measured->peak_memory = 30.0 * sim::GiB;
  EXPECT_EQ(site_peaks(std::vector{file}, shipped_facts()).size(), 2U);
  file.runs[1].scored.memory = true;
  const std::vector<SitePeak> peaks = site_peaks(std::vector{file}, shipped_facts());
  ASSERT_EQ(peaks.size(), 1U);
  EXPECT_EQ(peaks[0].id, "ours2");
  file.runs[1].measured->peak_memory = sim::Bytes(0.0);
  EXPECT_NE(error_of([&] {
              site_peaks(std::vector{file}, shipped_facts());
            }).find("run ours2: measured.peak_memory_bytes is not positive"),
            std::string::npos);
}

TEST(SiteRuns, WithPeaksAloneNeedNoStepTime) {
  hwdb::RunFile file = sample_group("ours", "h100_sxm", "pytorch", 1);
  file.runs[0].measured->step_time.reset();
  file.runs[0].measured->peak_memory = 30.0 * sim::GiB;
  EXPECT_TRUE(site_runs(std::vector{file}, shipped_facts()).empty());
  const SiteMemoryFit fit = fit_site_memory(site_peaks(std::vector{file}, shipped_facts()));
  const hwdb::Site site = site_without_times("ours", fit, "facts");
  EXPECT_TRUE(site.cells.empty());
  EXPECT_EQ(site.source, "site fit (calibrate/site_memory.h) to 1 peak, facts");
  EXPECT_EQ(site.fitted_from, "1 peak: ours1");
}

}  // namespace
}  // namespace llmsim::calibrate
