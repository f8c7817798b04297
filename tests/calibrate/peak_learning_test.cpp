#include "calibrate/peak_learning.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/backtest.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

// Eight peaks of each of some studies, e^error of what is predicted.
MeasuredMemory eight_peaks(const std::vector<double>& errors, const char* kind) {
  std::vector<hwdb::RunFile> files;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    files.push_back(sample_group("g" + std::to_string(i), "h100_sxm", "pytorch", 8));
    for (hwdb::RunRecord& record : files.back().runs) {
      record.measured->peak_memory = sim::GiB;
      record.measured->memory_kind = kind;
      record.scored.memory = true;
    }
  }
  MeasuredMemory memory = measured_memory(files);
  for (MeasuredPeak& peak : memory.peaks)
    peak.measured.peak_memory = std::exp(errors[peak.group]) *
                                comparable_peak(sim::predict(peak.run).memory, peak.measured);
  return memory;
}

// A study's peaks are all off by as much: what one says is nearly all there is to know.
TEST(PeakLearning, OnePeakTellsOfOthersThatAreOffAlike) {
  const MeasuredMemory memory = eight_peaks({0.2, -0.2, 0.1}, "allocated");
  const std::vector<PeakCurve> curves = peak_curves(memory, memory_fit(memory));
  ASSERT_EQ(curves.size(), 3U);
  for (const PeakCurve& curve : curves) {
    EXPECT_EQ(curve.kind, "allocated");
    EXPECT_EQ(curve.peaks, 8);
    ASSERT_EQ(curve.after.size(), 4U);
    EXPECT_LT(curve.after[1].site, 0.25 * curve.after[0].none);
    EXPECT_LT(curve.after[3].site, curve.after[1].site);
    EXPECT_LT(curve.after[3].width, curve.after[0].width);
    EXPECT_NEAR(curve.after[1].scalar, 0.0, 1e-9);
    EXPECT_LT(curve.like, 0.25 * curve.after[0].none);
  }
  EXPECT_NEAR(curves[0].after[0].none, 0.2, 1e-9);
  EXPECT_EQ(curves[0].after[0].site, curves[0].after[0].none);  // nothing is known
}

TEST(PeakLearning, KindsAreRowsOfTheirOwn) {
  std::vector<PeakCurve> studies(3);
  for (PeakCurve& study : studies) study.after = {{.known = 0, .none = 0.1, .site = 0.1}};
  studies[0].kind = "allocated", studies[1].kind = studies[2].kind = "device";
  studies[2].after[0].none = 0.4;
  studies[2].after.push_back({.known = 1, .none = 0.4, .site = 0.05});
  const std::vector<PeakCurveRow> rows = mean_curves(studies);
  ASSERT_EQ(rows.size(), 5U);  // allocated 0; device 0, 1; all 0, 1
  EXPECT_EQ(rows[1].kind, "device");
  EXPECT_EQ(rows[1].studies, 2);
  EXPECT_NEAR(rows[1].mean.none, 0.25, 1e-12);
  EXPECT_EQ(rows[2].studies, 1);
  EXPECT_EQ(rows[2].mean.known, 1);
  EXPECT_EQ(rows[3].kind, "all");
  EXPECT_NEAR(rows[3].median_none, 0.1, 1e-12);
}

}  // namespace
}  // namespace llmsim::calibrate
