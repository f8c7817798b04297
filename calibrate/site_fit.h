// Fits what the runs of one cluster say beyond the model that all clusters were fitted to.
//
// With p predicted and t measured step times,
//
//   ln t = ln p + s (step + cell + layout) + m memory + n network + h host + noise
//
// where s, m, n, h are the derivatives of ln p by the site's effects (hwdb/runs/site.h), so that p
// with the effects applied is what the fit says; s is nearly 1.  A cell is the site's runs on one
// device, in one framework and number format, of dense models or of MoE ones.  What is missed of a
// layout is a Gaussian process (sim/strategy/layout_errors.h): runs tell about layouts like theirs.
// The effects are normal around 0; their spreads are what the fit to all clusters (run_fit.h)
// leaves unknown:
//
//   step      sqrt(errors.site^2 + errors.efficiency^2 + training_rate_error^2)
//   cell      errors.cell; with experts, expert or context ranks also what errors.moe_site^2 is
//             above errors.site^2
//   layout    sim::LayoutErrors::error
//   noise     sim::LayoutErrors::run, or errors.run where layouts do not differ; from three runs on
//             estimated, with that counting as much as errors.noise_runs runs
//   memory    errors.memory_bound
//   network   errors.collectives
//   host      errors.hosts
//
// Of a profiled run the parts of its step stand in the place of its step time
// (profile/site_observations.h): each is a row with slopes of its own.
//
// From three runs on, noise and step have Student's t distribution (mixed_model.h): a broken run
// does not drag the others, and a site that is far off is not taken for a crowd of broken runs.
// Among fewer runs a broken one cannot be recognised.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "calibrate/layout_basis.h"
#include "calibrate/mixed_model.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/site.h"
#include "hwdb/store/database.h"
#include "sim/run.h"

namespace llmsim::calibrate {

// Runs from which on a broken one stands out.
inline constexpr int kFewRuns = 3;

// One run, or a part of its step, linear in the effects.
struct SiteRow {
  double residual = 0.0;                     // ln t - ln p
  hwdb::SiteEffects slopes = {.step = 1.0};  // s, m, n, h
  std::size_t cell = 0;
  sim::LayoutPoint layout{};
};

struct SiteRun {
  std::string id;
  sim::Run run;           // as it resolves without a site
  double measured = 0.0;  // s
  // Of its parts, without their cell and layout; where there are any, the step time is not used.
  std::vector<SiteRow> parts{};
};

// All runs with a measured step time; of a file that scores some of its times these alone.  Throws
// Error for a file without a step time and without a peak (site_memory.h), and for a run that
// cannot be read or predicted.
std::vector<SiteRun> site_runs(std::span<const hwdb::RunFile> files,
                               const hwdb::Database& database);

struct SitePriors {
  hwdb::SiteEffects spreads = {.step = 0.15, .memory = 0.10, .network = 0.20, .host = 0.30};
  double noise = 0.07;
  double noise_runs = 2.0;      // behind it
  std::vector<double> cells;    // by cell
  sim::LayoutErrors layouts{};  // all but their `run`, for which `noise` stands
};

// What runs of a site say of its effects: those of hwdb::kSiteEffects in their order, behind them
// those of the cells, behind these those of the basis of the layouts.
struct SitePosterior {
  MixedFit fit;
  LayoutBasis layouts;
  std::size_t cells = 0;

  std::size_t first_layout() const;
  // Of ln t - ln p of a row: what the fit says, and what it does not know of two rows or of one,
  // each without its noise.
  double mean_of(const SiteRow& row) const;
  double covariance_of(const SiteRow& row, const SiteRow& other) const;
  double variance_of(const SiteRow& row) const { return covariance_of(row, row); }
};

// `parts`: rows of parts of steps; the number of runs is that of `rows`, of which those that have
// parts are `profiled` and only say which layouts there are.
SitePosterior site_posterior(const std::vector<SiteRow>& rows, const SitePriors& priors,
                             const std::vector<SiteRow>& parts = {},
                             const std::vector<bool>& profiled = {});

// The row of a run, with the effects that `at` holds applied already;
// `residual` is what they leave.
SiteRow site_row(const SiteRun& run, const hwdb::SiteEffects& at = {});

// The cells of some runs, which differ in `kind` or an id, and the cell of each run.
struct SiteCells {
  std::vector<hwdb::SiteCell> cells;
  std::vector<std::size_t> of_run;
};
SiteCells site_cells(const std::vector<SiteRun>& runs);

// One run before and after the fit.
struct SiteFitRow {
  std::string id;
  double measured = 0.0, before = 0.0, after = 0.0;  // s
  double deviations = 0.0;  // ln measured - ln after, in deviations of the noise
};

struct SiteFit {
  hwdb::Site site;
  SitePosterior posterior;  // its cells are those of `site`
  std::vector<SiteFitRow> rows;
  double prior_error = 0.0;  // standard deviation of ln(t / p) before, of one run
  double error = 0.0;        // and after, of one more run of these cells
};

// At least one run, each with a predicted step time.  `layouts`: what layouts of one cluster are
// known to differ by (hwdb/runs/layout_errors.h).  `facts` names what the runs were predicted with
// (hwdb::Database::version), as the site's source will say.
SiteFit fit_site(const std::string& name, const std::vector<SiteRun>& runs,
                 const sim::LayoutErrors& layouts, const std::string& facts);

}  // namespace llmsim::calibrate
