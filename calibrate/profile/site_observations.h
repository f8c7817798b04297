// What a profiled step says of the cluster that it ran on.
//
// Each of these kinds of time in a step that takes t seconds where p are predicted, in short
//
//   GEMMs and attention, memory-bound kernels, wires of collectives, a device idle for its host
//
// is an observation of the site's effects u (hwdb/runs/site.h), up to noise:
//
//   ln t - ln p = sum of u d(ln p) / du
//
// with derivatives as differences of predictions.  Of collectives the time of the wire counts,
// hidden or not, of those that move as many bytes as predicted, within a quarter.  What waits for
// late ranks or for data, and what no name tells, is a fault of the run and says nothing of the
// cluster.  Kinds of which less than 2 % of the step is predicted are left out: they miss other
// things than these.
#pragma once

#include <vector>

#include "calibrate/profile/step_difference.h"
#include "calibrate/site_fit.h"

namespace llmsim::calibrate {

// Rows without a cell and a layout, which the fit knows.  `run` as it resolves without a site.
std::vector<SiteRow> site_observations(const ProfiledStep& step, const sim::Run& run);

}  // namespace llmsim::calibrate
