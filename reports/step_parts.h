// What a step waits for: its breakdown in a few components, for bars.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/predict.h"

namespace llmsim::reports {

struct StepPart {
  const char* name;
  sim::Seconds time{};
};

// "GEMMs", "attention", "recomputation", "memory-bound kernels", "communication", "pipeline
// bubble", "host", "slowest device" and "the rest", the longest first, without those that take no
// time; they add up to the breakdown.
std::vector<StepPart> step_parts(const sim::Prediction& prediction);

// "GEMMs          68 %  ##########################": one line for each component that takes a
// hundredth of the step, `width` characters for all of it.
std::vector<std::string> step_bars(const sim::Prediction& prediction, int width);

// "What a step waits for", in bars.
Table step_bars_table(const sim::Prediction& prediction);

}  // namespace llmsim::reports
