// One step of one run, as a page draws it: the timeline of its pipeline, and the operators and
// collectives that it is made of.  JSON has it under "step" (README.md).
#pragma once

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

}  // namespace llmsim::reports
