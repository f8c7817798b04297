// Fits what the measured peaks of one cluster say beyond the model that all clusters were fitted to
// (sim/strategy/peak_correction.h has the model).
//
// Residuals are linear in the effects around what they come to; spreads are those of all clusters,
// so that a site without peaks has the error of a run of an unknown study,
//
//   site^2 + layout^2 + run^2 = errors.memory^2
//
// From three peaks on their noise has Student's t distribution with nu = 4 degrees of freedom,
// by weights w = (nu + 1) / (nu + E e^2 / run^2) that are renewed until they settle
// (mixed_model.h): a broken run hardly counts.  Its noise is run / sqrt w.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hwdb/runs/run_record.h"
#include "hwdb/runs/site.h"
#include "hwdb/runs/site_memory.h"
#include "hwdb/store/database.h"
#include "sim/run.h"

namespace llmsim::calibrate {

struct SitePeak {
  std::string id;
  sim::Run run;             // as it resolves without a site
  hwdb::Measured measured;  // with a peak
};

// All runs with a measured peak; of a file that scores some of its peaks these alone.  Throws Error
// for a run that cannot be read or predicted.
std::vector<SitePeak> site_peaks(std::span<const hwdb::RunFile> files,
                                 const hwdb::Database& database);

// The peak as an observation, its residual that of the run without a site.
sim::PeakObservation peak_observation(const SitePeak& peak);

// Spreads of a site none of whose runs is known; the error of a run is `error`.
sim::PeakSpreads site_spreads(double error);

// Noise and residuals as they settle.  `observations` as they are without a site.
std::vector<sim::PeakObservation> weighted(std::vector<sim::PeakObservation> observations,
                                           const sim::PeakSpreads& spreads);

// ln of the measured peak over the predicted one that is still expected of a run, and how far off
// that is.
struct ExpectedResidual {
  double mean = 0.0, deviation = 0.0;
};
ExpectedResidual expected_residual(const std::vector<sim::PeakObservation>& known,
                                   const sim::PeakSpreads& spreads, const sim::PeakObservation& of);

// One peak before and after the fit.
struct SitePeakRow {
  std::string id, kind;
  sim::Bytes measured{}, before{}, after{};
  double deviations = 0.0;  // ln measured - ln after, in PeakSpreads::run
};

struct SiteMemoryFit {
  hwdb::SiteMemory memory;
  std::vector<SitePeakRow> rows;
  double prior_error = 0.0;  // standard deviation of ln(measured / predicted) before, of one peak
  double error = 0.0;        // and after, of one more peak of a run like these
};

// Empty without peaks.
SiteMemoryFit fit_site_memory(const std::vector<SitePeak>& peaks);

// A site of runs that have peaks and no step time.  `facts` names what they were predicted with.
hwdb::Site site_without_times(const std::string& name, const SiteMemoryFit& fit,
                              const std::string& facts);

}  // namespace llmsim::calibrate
