// One optimizer step of the whole machine: the passes of every stage, the pipeline, the data-parallel exchange, the update.
//
// A step ends with the last event of any stage or, where stages need not wait for one another between steps, after the longest
// time from a stage's first event to its last (updates_unsynchronised in strategy/stage_layout.h).  It is cut into named terms of
// the busiest stage, whose passes take longest, that add up to the step time: what it computed (by pass and kind), what it waited
// for (exposed collectives, launches, host link), and the pipeline bubble: how long it is idle in the simulated pipeline, before,
// between and after its passes until the last stage has ended.  What the passes as they were simulated and their terms disagree
// about would be a term of its own, the remainder; it is rounding, and listed only where it is more.
#pragma once

#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/communication.h"

namespace llmsim::sim {

// A named part of the step time.
struct TimeTerm {
  const char* name = "";
  Seconds time{};
};

struct StepTimes {
  Seconds total{};
  std::vector<TimeTerm> breakdown;  // adds up to total
  std::vector<CommunicationTerm> communication;
  double bubble = 0.0;  // idle share of the busiest stage while the passes of all stages run
};

StepTimes simulate_step(const Run& run, const LayerPrices& prices);

// Only the total, for searches.
Seconds step_time(const Run& run, const LayerPrices& prices);

}  // namespace llmsim::sim
