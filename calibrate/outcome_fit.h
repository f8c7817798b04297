// The error of predicted memory, from outcomes: of runs that fitted into their devices and of runs
// that did not.
//
// With x = ln(capacity / needed) and the error e of the prediction (scale s, Student's t),
//
//   P(ran | study) = F((x - location - study) / (k s b)),   study = k s a T,  a^2 + b^2 = 1
//
// F and T those of t_4 (sim/base/uncertainty.h), a^2 the share of the error that a study has in
// common.
// The study's effect is integrated out, so that a study counts once however many runs it has.  A
// study that reports one outcome only is left out: most tables list runs that fitted and not the
// attempts that failed, so that such a study would only show how far from the limit people stay.
// Location and ln k have normal priors around 0; posterior means and deviations are sums over a
// grid.  A location above zero means that runs need more than is predicted.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace llmsim::calibrate {

struct Outcome {
  std::size_t group = 0;
  double room = 0.0;   // x
  double scale = 0.1;  // s, as peaks have it
  bool ran = false;
};

struct OutcomePriors {
  double location = 0.2;     // standard deviation
  double log_scale = 0.5;    // of ln k
  double study_share = 0.7;  // a^2
};

struct OutcomeFit {
  int ran = 0, out_of_memory = 0, studies = 0;  // that count
  double location = 0.0, location_error = 0.0;
  double log_scale = 0.0, log_scale_error = 0.0;  // ln k
  std::map<std::size_t, double> without;  // ln k of a fit to the other groups, by group that counts

  // Of a prediction that knows nothing of the group.
  double log_scale_without(std::size_t group) const {
    const auto found = without.find(group);
    return found == without.end() ? log_scale : found->second;
  }
};

// Without outcomes the priors.
OutcomeFit outcome_fit(const std::vector<Outcome>& outcomes, const OutcomePriors& priors = {});

}  // namespace llmsim::calibrate
