// One optimizer step of the whole machine: the passes of every stage, the pipeline, the data-parallel exchange, the update.
//
// The busiest stage is the one whose last event ends the step.  Its time is cut into named terms that add up to the step time:
// what it computed (by pass and kind), what it waited for (exposed collectives, launches, host link), and the pipeline bubble.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"

namespace llmsim::sim {

// A named part of the step time.
struct TimeTerm {
  const char* name = "";
  Seconds time{};
};

// One kind of collective over one group, over the whole step, on the busiest rank.
struct CommunicationTerm {
  std::string collective;  // "all_gather", "reduce_scatter", "all_reduce", "send_recv", "all_to_all"
  std::string group;       // "dp", "dp_replicate", "tp", "pp", "cp", "ep"
  int ranks = 1;
  Bytes size{};       // message bytes (nccl-tests' size) summed over the step
  double count = 0;   // calls per step
  Seconds time{};     // if nothing were hidden
  Seconds exposed{};  // part that compute does not hide
};

struct StepTimes {
  Seconds total{};
  std::vector<TimeTerm> breakdown;  // adds up to total
  std::vector<CommunicationTerm> communication;
  double bubble = 0.0;  // idle share of the busiest stage between its first and last pass
};

StepTimes simulate_step(const Run& run, const LayerPrices& prices);

// Only the total, for searches.
Seconds step_time(const Run& run, const LayerPrices& prices);

}  // namespace llmsim::sim
