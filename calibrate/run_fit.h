// Fits coefficients to the step times of whole runs.
//
// With u_k = ln(value_k / prior_k) and r_i = ln(predicted_i / measured_i), minimises
//
//   sum_g v_g / n_g  sum_{i in g} rho(r_i / s)  +  sum_k (u_k / t_k)^2
//
//   rho   that of Student's t with 4 degrees of freedom, rho(x) = 4 ln(1 + x^2 / 4): errors beyond
//         two s pull ever less, so that
//   a
//         study far from all others does not drag them
//   n_g   runs of group g that are fitted to, v_g = min(1, n_g / 3): a study counts once however
//         many rows it has
//   s     the misfit of a typical group, the median over groups of the root mean square of r,
//         renewed until it settles
//   t_k   the spread of the prior
//
// One study is one observation with the scatter between studies as its error: rows of a study share
// what is unknown about its site.  Standard errors are the larger of
//
//   posterior   sqrt(diag (J^T W J / s^2 + diag(1 / t^2))^-1)
//   jackknife   sqrt((G - 1) / G  sum_g (u_without_g - mean)^2) over the G groups that tell about a
//                                 coefficient (leave_one_out.h)
//
// Gauss-Newton steps with weights 1 / (1 + x^2 / 4) and numerical derivatives, halved until the sum
// falls.
// Source: Lange, Little & Taylor, J. Am. Stat. Assoc. 84(408), 1989.
#pragma once

#include <optional>
#include <vector>

#include "calibrate/measured_runs.h"

namespace llmsim::calibrate {

struct RunFitOptions {
  std::optional<std::size_t> without = std::nullopt;  // a group that is left out
  std::vector<double> start = {};                     // ln(value / prior); empty: the priors
  std::optional<double> misfit = std::nullopt;        // s, where it is known
  unsigned threads = 0;                               // 0: all cores
};

struct RunFit {
  std::vector<double> shifts;      // ln(value / prior), by coefficient
  std::vector<double> deviations;  // posterior standard deviation of the shifts
  double misfit = 0.0;             // s
};

RunFit run_fit(const MeasuredRuns& runs, const RunFitOptions& options = {});

// ln(predicted / measured) of every run, fitted to or not.
std::vector<double> log_errors(const MeasuredRuns& runs, const std::vector<double>& shifts,
                               unsigned threads = 0);

}  // namespace llmsim::calibrate
