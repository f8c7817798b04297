// Whether runs that are said to fit with a probability P fit as often.
//
// Verdicts are put into bins of P; of each bin the mean of P is held against the share of runs that
// ran.  A study that lists only what ran says how far from the limit people stay, not where it is
// (outcome_fit.h): bins are of all studies and of those that report both outcomes.  The Brier score
// is the mean of (P - y)^2, with y = 1 for a run that ran and 0 for one that was out of memory.
//
// Sources: Brier, Monthly Weather Review 78 (1950); Murphy & Winkler, Applied Statistics 26 (1977),
// reliability diagrams.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/backtest.h"

namespace llmsim::calibrate {

struct Verdict {
  std::string group;
  double said = 0.0;  // P
  bool ran = false;
};

// The scored outcomes "ok" and "oom" of runs with a prediction.
std::vector<Verdict> verdicts(const Backtest& backtest);

struct ReliabilityCount {
  int runs = 0, ran = 0;
  std::optional<double> said;   // mean of P; none without runs
  std::optional<double> share;  // of them that ran
};

struct ReliabilityBin {
  double from = 0.0, to = 1.0;  // of P; the last one with its end
  ReliabilityCount all, both;   // of studies that report both outcomes
};

// The last bin is of every P.
struct Reliability {
  std::vector<ReliabilityBin> bins;
  std::optional<double> brier, brier_both;
};

Reliability reliability(const std::vector<Verdict>& verdicts);

}  // namespace llmsim::calibrate
