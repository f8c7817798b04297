// The door of the simulator: predict(Run) -> Prediction.
//
// Everything in a prediction is derived from one list of operators (operators/), priced (cost/),
// scheduled (schedule/) and weighed (memory/).  predict() is a pure function; it allocates little
// and takes well under a millisecond per 80-layer model.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/memory/footprint.h"
#include "sim/model/flops.h"
#include "sim/model/parameters.h"
#include "sim/run.h"
#include "sim/schedule/step.h"
#include "sim/strategy/validity.h"

namespace llmsim::sim {

// The prediction of a run: time and its breakdown, memory, communication, rates,
// and warnings about them.
struct Prediction {
  Run run;
  // A run that is out of memory, of a device or of the host, still has all values; one that breaks
  // another rule has none.
  std::optional<Infeasible> infeasible{};

  Seconds step_time{};
  // Holds the measured step time with probability interval_level.
  std::pair<Seconds, Seconds> interval{};
  double interval_level = 0.9;

  // On networks that have two states: the step time in the slow one.  `step_time` is of the fast
  // one; `interval` holds both.
  std::optional<Seconds> slow_step_time{};

  double tokens_per_second_per_device = 0.0;
  // Exact model FLOPs (GEMM and causal attention, model/flops.h).
  FlopsPerSecond flops_per_device{};
  FlopsPerSecond peak{};  // of the recipe's format, on one device: what utilisations are of
  double mfu = 0.0;       // exact model FLOPs over it; at most 1 or in `warnings`
  double hfu = 0.0;       // executed FLOPs over it
  std::vector<Convention> conventions{};

  std::vector<TimeTerm> breakdown{};  // adds up to step_time
  Memory memory{};
  MemoryPeak memory_peak{};  // where in the step it is
  std::vector<CommunicationTerm> communication{};
  // Of one step, whole cluster.  Model FLOPs follow from model and batch alone; hardware FLOPs are
  // what all ranks execute, with recomputation, masked scores of attention that is not fused,
  // padded vocabularies, key/value heads that several tensor ranks have, and rows of experts as
  // many as the busiest rank has.
  Flops model_flops{};
  Flops hardware_flops{};
  Parameters parameters{};  // of the model as asked, without vocabulary padding
  double bubble = 0.0;      // idle fraction of the busiest stage's pipeline time

  int unpadded_vocab_size = 0;  // before the framework padded it
  // Values that no real machine can have, a sign of a wrong coefficient; each names its limit and
  // what to look at.  A hardware rate above the peak, or above what the device's best measured
  // GEMMs reach; memory traffic above the data sheet's bandwidth; what the framework does not have;
  // more devices than the named system has, or devices that it has not.  Those of the run come
  // before all of these.
  std::vector<std::string> warnings{};

  bool feasible() const { return !infeasible; }
};

// Throws Error for a run whose fields are out of range, or whose coefficients make it faster than
// the peak of its devices (no MFU outside 0 to 1 leaves this door); an impossible or too large run
// is an answer, not an exception.
// The prediction's run has the vocabulary as the framework pads it.
Prediction predict(const Run& asked);

// The same without what a peak is made of: where it is (memory_peak), and the phases and terms of
// stages.  For questions of time and of what fits: of thousands of stages these take most of it.
Prediction predict_without_terms(const Run& asked);

// Why a measured step time cannot be right, a line each: it implies a rate above the peak, or it is
// less than a third or more than three times of the predicted one.  The
// prediction must have a step time.
std::vector<std::string> implausible_measurement(const Prediction& prediction, Seconds measured);

// What a switch of a run is worth: its step time with the switch the other way round.
struct SwitchWorth {
  std::string key;  // of strategy_fields()
  bool on = false;  // in the run
  // Step time with the switch the other way round, relative to the run's.
  double other_way = 1.0;
};

// Of the switches named in `keys`, those that would change the step time, strongest first.  Left
// out are keys of no switch and what would break a rule or not fit.
std::vector<SwitchWorth> switch_worths(const Run& run, const std::vector<std::string>& keys);

}  // namespace llmsim::sim
