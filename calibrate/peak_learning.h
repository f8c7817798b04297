// How much a few measured peaks of a cluster tell about its others.
//
// Each study of at least four peaks stands for a cluster that nobody has seen: it is predicted
// without what a fit found, k of its peaks update the prediction (site_memory.h), and the error of
// each of the rest is |ln(predicted / measured)|.  A study's error is the mean over 40 draws of the
// k peaks, the same in every program run, of the median over the rest, at least three; each study
// counts once.  `like` is the error of each peak after the one peak that is most like its run
// (sim/strategy/peak_correction.h; of several that are alike, the mean), the median over the peaks.
//
// The kinds of peaks are of different studies, so that a row is one of them or all.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measured_runs.h"
#include "calibrate/memory_fit.h"

namespace llmsim::calibrate {

// Errors of the rest after k peaks.
struct PeaksLearned {
  int known = 0;          // k
  double none = 0.0;      // predicted as without them
  double scalar = 0.0;    // all peaks multiplied by the median of the k ratios
  double site = 0.0;      // by the site's memory
  double coverage = 0.0;  // of 90 % intervals, by the site
  double width = 0.0;     // ln(highest / lowest) of these intervals
};

struct PeakCurve {
  std::string study, kind;
  int peaks = 0;
  std::vector<PeaksLearned> after;  // as many of kPeaksKnown as it has peaks for
  double like = 0.0;
};

inline constexpr int kPeaksKnown[] = {0, 1, 3, 5};

std::vector<PeakCurve> peak_curves(const MeasuredMemory& memory, const MemoryFit& fit);

// The studies of a kind, or "all".  After k peaks those that have enough for it:
// the mean of each value over them, and the median of `site`.
struct PeakCurveRow {
  std::string kind;
  int studies = 0;
  PeaksLearned mean;
  double median_none = 0.0, median_site = 0.0;
};
std::vector<PeakCurveRow> mean_curves(const std::vector<PeakCurve>& studies);

}  // namespace llmsim::calibrate
