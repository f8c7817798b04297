// The passes of one stage as they were simulated (step.h), each with the terms that its time is made
// of and with what its messages take: what timeline.h draws.
//
// The cut of a pass into terms is that of passes.h; ours.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/pipeline/pipeline.h"
#include "sim/run.h"
#include "sim/schedule/passes.h"
#include "sim/schedule/step.h"

namespace llmsim::sim {

// Time on the compute stream: one pass, two that are joined, or several that are not shown one by
// one.
struct WorkSpan {
  std::string name;  // "F3", "B3 chunk 1", "W3", "F3 & B1"
  const char* category = "";
  std::span<const PassEvent> passes{};  // none of several
  std::size_t covered = 0;              // how many passes it stands for
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

// Whether a pass is drawn whatever is beside it: all are where `shown` is 0.
bool is_shown(const PipelinePass& pass, int shown);

// All `passes` of a stage, which must outlive the result.  Those of micro-batches from `shown` on
// (0: of none) that follow one another are one span, the bubbles between them with it.  Gathers and
// reductions of weights of this stage make a pass longer than it was simulated, and the later ones
// later.
std::vector<WorkSpan> work_spans(const Run& run, const LayerPrices& prices,
                                 const StepSimulation& simulation, int stage,
                                 std::span<const PassEvent> passes, int shown);

}  // namespace llmsim::sim
