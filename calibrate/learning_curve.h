// How much a few runs of a cluster tell about its others.
//
// Each study of at least six runs stands for a cluster that nobody has seen: it is predicted by the
// fit to the others (run_fit.h), k of its runs update the prediction (site_fit.h), and the error of
// each of the rest is |ln(predicted / measured)|.  What layouts differ by is fitted to the other
// studies too (layout_fit.h).  A study's error is the mean over 40 draws of the
// k runs, the same in every program run, of the median over the rest; each study counts once.
#pragma once

#include <string>
#include <vector>

#include "calibrate/layout_fit.h"
#include "calibrate/measured_runs.h"
#include "calibrate/run_fit.h"

namespace llmsim::calibrate {

// Median errors of the rest after k runs.
struct Learned {
  double none = 0.0;      // predicted as without them
  double scalar = 0.0;    // all times multiplied by the median of the k ratios of times
  double step = 0.0;      // by the site's step and cells alone
  double rates = 0.0;     // by memory, network and host as well
  double site = 0.0;      // by layouts as well
  double coverage = 0.0;  // of 90 % intervals, by the site
  double width = 0.0;     // ln(highest / lowest) of these intervals
};

struct StudyCurve {
  std::string study;
  int runs = 0;
  std::vector<Learned> after;  // by kLearnedFrom
};

inline constexpr int kLearnedFrom[] = {0, 1, 3, 5};

// The studies by group; none has rows whose group has no runs.
std::vector<SiteStudy> site_studies(const MeasuredRuns& runs, const RunFit& fit,
                                    unsigned threads = 0);

std::vector<StudyCurve> learning_curves(const MeasuredRuns& runs, const RunFit& fit);

// Of (ln measured - ln predicted) / deviation of the rest, after one or two runs and after three or
// five: the 5 and 95 % quantiles, each study and each number of runs alike.  Those of the normal
// distribution without a study of at least six runs.
SiteQuantiles site_quantiles(const std::vector<SiteStudy>& studies, const LayoutFit& layouts,
                             unsigned threads = 0);

// Each study once.
std::vector<Learned> mean_curve(const std::vector<StudyCurve>& studies);

}  // namespace llmsim::calibrate
