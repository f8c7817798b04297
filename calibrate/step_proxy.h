// A training step that a few ranks can run for a minute in place of one that they cannot: with the
// same operators of the same shapes on each rank, and fewer of them.
//
//   ranks    dp becomes the largest divisor that leaves as many ranks as there are, then pp; a
//            stage keeps its layers and a rank its experts, so a model has fewer of both where
//            there are fewer stages and expert ranks.  Tensor and context ranks stay: without
//            them the shapes are others
//   memory   two layers of each model chunk, one with experts and one without where a model
//            has both
//   time     as many micro-batches as stages, then two layers of each chunk
//
// What is left is the first of these that suffices.  Sequences of a micro-batch stay as they are.
#pragma once

#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/run.h"

namespace llmsim::calibrate {

struct StepProxy {
  sim::Run run;
  std::vector<std::string> changes;  // "dp 64 -> 2"; empty: the run as it is
};

struct ProxyLimits {
  int ranks = 1;
  sim::Seconds step{};  // of the predicted step
};

// `run` is on the device that will run it, whose memory and speed decide.  Throws Error where its
// tensor and context ranks are more than there are.
StepProxy step_proxy(sim::Run run, const ProxyLimits& limits);

}  // namespace llmsim::calibrate
