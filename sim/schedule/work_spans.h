// The passes of one stage of a step as they were simulated, each with the terms that its time is
// made of and with what its messages take: what timeline.h draws.
//
// Ours, as timeline.h is.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/step.h"

namespace llmsim::sim {

// Time on the compute stream: one pass, two that are joined, or several that are not shown one by
// one.
struct WorkSpan {
  std::string name;  // "F3", "B3 chunk 1", "W3", "F3 & B1"
  const char* category = "";
  std::span<const PassEvent> passes{};  // none of several
  Seconds start{};
  Seconds end{};
  Terms terms{};
  // If nothing were hidden, by the term that they are exposed as.
  std::array<Seconds, kNumTerms> messages{};

  Seconds& message(Term exposed_as) { return messages[static_cast<std::size_t>(exposed_as)]; }
  Seconds message(Term exposed_as) const { return messages[static_cast<std::size_t>(exposed_as)]; }
  void add(const WorkSpan& later);
};

// "F3", "B3 chunk 1": of a layout with several chunks a stage, with the chunk.
std::string pass_name(const StageLayout& layout, const PipelinePass& pass);

// All `passes` of a stage, which must outlive the result.  Those of micro-batches from `shown` on
// (0: of none) that follow one another are one span, the bubbles between them with it.  Gathers and
// reductions of weights of this stage make a pass longer than it was simulated, and the later ones
// later.
std::vector<WorkSpan> work_spans(const Run& run, const LayerPrices& prices,
                                 const StepSimulation& simulation, int stage,
                                 std::span<const PassEvent> passes, int shown);

}  // namespace llmsim::sim
