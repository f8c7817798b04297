// The passes of one stage as they were simulated (step.h), each with the components of its time and
// the times of its messages, for timeline.h to draw.
//
// A pass has the components of passes.h; the spans are ours.
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

// A span of time on the compute stream: one pass, two that are joined, or several that are not
// drawn one by one.
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

// Whether a pass is drawn by itself: those of the first `shown` micro-batches,
// or all where it is 0.
bool is_shown(const PipelinePass& pass, int shown);

// All `passes` of a stage, which must outlive the result.  Those of micro-batches from `shown` on
// (0: of none) that follow one another become one span, with the bubbles between them.  Gathers of
// weights and reductions of gradients make a pass of this stage longer than in the simulation of
// the pipeline, and delay the passes after it.
std::vector<WorkSpan> work_spans(const Run& run, const LayerPrices& prices,
                                 const StepSimulation& simulation, int stage,
                                 std::span<const PassEvent> passes, int shown);

}  // namespace llmsim::sim
