// Which run of a site to measure next, so that the step time of another is known better.
//
// With the fit of the site (site_fit.h), v the variance of ln t that it leaves of the wanted run
// and w of another, c what both have in common, and noise as it is, one more measurement leaves
//
//   v' = v - c^2 / (w + noise^2)
//
// of the wanted run, whatever the result is.  Candidates are neighbours of the wanted run on as
// many devices or fewer, down to a sixteenth, by halves of dp and of the global batch, that differ
// from it in no more than one of micro-batch, tp and pp, by a factor of 2, and fit.
// Source: the posterior variance of a Gaussian process after one observation, Rasmussen & Williams,
// Gaussian Processes for Machine Learning, 2006, 2.2.
#pragma once

#include <utility>
#include <vector>

#include "calibrate/site_fit.h"
#include "sim/run.h"

namespace llmsim::calibrate {

double variance_after(const SitePosterior& site, const SiteRow& wanted, const SiteRow& measured);

// Without the run itself, the most devices first.
std::vector<sim::Run> neighbours(const sim::Run& run);

// A run, and the 90 % interval of the wanted run's step time after it.
struct NextRun {
  sim::Run run;
  double step_time = 0.0;                // s, of this run
  std::pair<double, double> interval{};  // s, of the wanted one
};

struct NextRuns {
  NextRun now;  // the wanted run, and its interval as it is
  // Of each number of devices the one after which the interval is the narrowest, in this order.
  std::vector<NextRun> best;
};

// `wanted` as it resolves without a site.  Throws Error where the site has no cell for it.
NextRuns next_runs(const SiteFit& fit, const sim::Run& wanted);

}  // namespace llmsim::calibrate
