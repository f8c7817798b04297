// One step of one run, as a page draws it: the timeline of its pipeline, and the operators and
// collectives that it is made of.  JSON has it under "step" (README.md).
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/predict.h"
#include "sim/schedule/timeline.h"

namespace llmsim::reports {

struct StepDetail {
  sim::Run run;
  sim::Timeline timeline;      // passes, no operators
  int drawn_microbatches = 0;  // whose passes are events one by one: all, or the first
};

// About as many passes are drawn as the eye can distinguish.  Requires a
// prediction with a step time.
StepDetail step_detail(const sim::Prediction& prediction);

// A component of a step's breakdown, for bars.
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
