// What a fit is worth on studies that it has not seen: each group is left out, the rest fitted, the
// group predicted.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/run_fit.h"

namespace llmsim::calibrate {

// How far one group moves one coefficient.
struct Influence {
  std::size_t group = 0;
  double shift = 0.0;  // of ln(value): fitted to all groups less fitted without this one
};

struct LeaveOneOut {
  RunFit fit;  // to all groups
  // By group left out: ln(value / prior) of each coefficient.
  std::vector<std::vector<double>> shifts;
  // Ln(predicted / measured) of every run: at the priors, fitted to all groups,
  std::vector<double> before, fitted, left_out;
  // and fitted without the run's own group
  // By coefficient: the groups that tell about it, the strongest first.
  std::vector<std::vector<Influence>> influence;
  // Of ln(value), by coefficient: the larger of posterior and jackknife.
  std::vector<double> deviations;
};

LeaveOneOut leave_one_out(const MeasuredRuns& runs, unsigned threads = 0);

// The rows of hwdb/facts/coefficients.json: every coefficient whose prior the runs narrow by at
// least a tenth, with the groups that move it by 0.5 % or more.  Their fitted_from begins with
// kRunFit.
std::vector<hwdb::Coefficient> fitted_rows(const MeasuredRuns& runs, const LeaveOneOut& result);

// The back-test of `files` with these errors, ln(predicted / measured), in the place of
// predictions.  Runs that are not among `runs` have none.
Backtest backtest_of(std::span<const hwdb::RunFile> files, const MeasuredRuns& runs,
                     const std::vector<double>& errors,
                     const std::function<std::pair<double, double>(std::size_t run)>& log_interval);

}  // namespace llmsim::calibrate
