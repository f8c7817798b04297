// What the simulator says about a run: time and its breakdown, memory, communication, rates, and what is wrong with them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/memory/footprint.h"
#include "sim/model/conventions.h"
#include "sim/model/parameters.h"
#include "sim/run.h"
#include "sim/schedule/step.h"
#include "sim/strategy/validity.h"

namespace llmsim::sim {

struct Prediction {
  Run run;
  std::optional<Infeasible>
      infeasible{};  // out of memory, of a device or of the host, still has all figures; other rules leave them empty

  Seconds step_time{};
  std::pair<Seconds, Seconds> interval{};  // holds the measured step time with probability interval_level
  double interval_level = 0.9;

  // On networks that have two states: the step time in the slow one.  `step_time` is of the fast one; `interval` holds both.
  std::optional<Seconds> slow_step_time{};

  double tokens_per_second_per_device = 0.0;
  FlopsPerSecond flops_per_device{};  // exact model FLOPs (GEMM and causal attention, model/flops.h)
  FlopsPerSecond peak{};              // of the recipe's format, on one device: what utilisations are of
  double mfu = 0.0;                   // exact model FLOPs over it; at most 1 or in `warnings`
  double hfu = 0.0;                   // executed FLOPs over it
  std::vector<Convention> conventions{};

  std::vector<TimeTerm> breakdown{};  // adds up to step_time
  Memory memory{};
  MemoryPeak memory_peak{};  // where in the step it is
  std::vector<CommunicationTerm> communication{};
  // Of one step, whole cluster.  Model FLOPs follow from model and batch alone; hardware FLOPs are what all ranks execute, with
  // recomputation, masked scores of attention that is not fused, padded vocabularies, key/value heads that several tensor ranks
  // have, and rows of experts as many as the busiest rank has.
  Flops model_flops{};
  Flops hardware_flops{};
  Parameters parameters{};  // of the model as asked, without vocabulary padding
  double bubble = 0.0;      // idle fraction of the busiest stage's pipeline time

  int asked_vocab_size = 0;             // before the framework padded it
  std::vector<std::string> warnings{};  // figures that no real machine gives, see plausibility.h

  bool feasible() const { return !infeasible; }
};

}  // namespace llmsim::sim
