// What the switches of a run are worth: its step time with one of them the other way round.
#pragma once

#include <string>
#include <vector>

#include "sim/run.h"

namespace llmsim::sim {

struct SwitchWorth {
  std::string key;  // strategy_fields.h
  bool on = false;  // in the run
  // Step time with the switch the other way round, relative to the run's.
  double other_way = 1.0;
};

// Of the switches named in `keys`, those that would change the step time, strongest first.  Left
// out are keys of no switch and what would break a rule or not fit.
std::vector<SwitchWorth> switch_worths(const Run& run, const std::vector<std::string>& keys);

}  // namespace llmsim::sim
