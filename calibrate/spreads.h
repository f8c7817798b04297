// Error bars: how far runs of a study that a fit has not seen lie from their prediction.
//
// With x = ln(measured / predicted) of left-out runs, each side of a framework has its own root
// mean square:
//
//   slower^2 = (nu all_slower^2 + sum_g sum_{i in g, x_i > 0} x_i^2 / n_g) / (nu + sum_g (share of
//     x_i > 0 in g))
//
// and faster^2 likewise over x <= 0; `all` is the same over all frameworks with nu = 0.  The groups
// g are those of the framework, and n_g counts the runs of a group on it: a study counts once.  nu
// = 4 studies' worth of the spread of all frameworks keeps a framework that one well-tuned study
// tells about from looking certain.
//
// A root mean square of n studies is itself uncertain: a run of the next study lies within
// Student's quantile t_n of it, not within that of the normal distribution.  The shipped spreads
// are wider by t_n / 1.645, so that a 90 % interval is [t e^(-1.645 faster), t e^(1.645 slower)];
// with 4 studies that is 1.30, with 25 it is 1.04.
//
// Two sides, because runs that nobody tuned are slower than predicted, seldom faster.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measured_runs.h"

namespace llmsim::calibrate {

struct Spread {
  double faster = 0.0;
  double slower = 0.0;
  // Studies' worth of runs behind each, the prior's included.
  double groups_faster = 0.0, groups_slower = 0.0;
};

struct Spreads {
  Spread all;
  std::map<std::string, Spread> by_framework;

  const Spread& of(const std::string& framework) const;
};

// t_n / 1.645 at 95 %, n at least 4.  Within 0.2 % (Abramowitz and Stegun 26.7.5).
double student_factor(double studies);

// From ln(predicted / measured) of every run, where its group was left out.
Spreads spreads(const MeasuredRuns& runs, const std::vector<double>& errors);

// For every run the logarithms of the 90 % interval over the prediction, from the spreads of all
// groups but its own.
std::vector<std::pair<double, double>> left_out_intervals(const MeasuredRuns& runs,
                                                          const std::vector<double>& errors);

// What the fitted_from of spread_rows begins with.
inline constexpr const char* kSpreadFit = "left-out step times of ";

// The rows of hwdb/facts/coefficients.json, with Student's factor: spread_faster and spread_slower
// of every framework that runs tell about, each with the standard error spread / sqrt(2 n), n the
// studies behind it.
std::vector<hwdb::Coefficient> spread_rows(const MeasuredRuns& runs, const Spreads& spreads);

}  // namespace llmsim::calibrate
