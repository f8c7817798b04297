// What a rank of one pipeline stage holds through a step, pass by pass, and what its allocator reserves for it.
//
// The passes come in the order of the schedule (schedule/pipeline.h).  Each block keeps its share of what the chunk keeps, as the
// tensors that its operators save; the backward pass of a block brings back what recomputation has dropped, holds the gradients
// of its activations, and gives back what the block kept.  The sizes are those of stage_bytes.h, so that the highest point is
// the peak of footprint.h, which knows it without following the step: over 1,624 published runs at most 0.1 % above it, and at
// most 7 % below where footprint.h counts gradients that micro-batches add to as there from the start.
//
// Every tensor goes through PyTorch's caching allocator (caching_allocator.h).  What lasts is one tensor for each term.
#pragma once

#include <optional>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/run.h"

namespace llmsim::sim {

// The highest point of a pass, or its end.
struct MemoryPoint {
  const char* instant = "";          // "idle", "forward", "loss", "backward", "gradients", "update"
  std::optional<int> micro_batch{};  // none outside passes
  std::optional<int> layer{};        // of the model, whose pass it is; none at the ends and in the loss
  int passes_in_flight = 0;          // of one chunk each, whose activations are kept
  int blocks_in_flight = 0;          // that keep some
  Bytes allocated{};                 // sum of the terms, without rounding
  Bytes reserved{};                  // by the allocator until then
  std::vector<MemoryTerm> terms{};
};

struct MemoryCurve {
  int stage = 0;
  std::vector<MemoryPoint> points{};
  std::size_t highest = 0;  // the first point of them that no other is above

  const MemoryPoint& peak() const { return points[highest]; }
};

// Length: all micro-batches of the step, or as few as reach its peak, the last of which stands for the last of the step.
struct MemoryCurveOptions {
  bool whole_step = true;
  bool reserved = true;  // follow the allocator
  bool expandable_segments = false;
};

// Requires a stage of a valid run.  Of the runtime's own steps the instants of footprint.h, whose tape has no passes.
MemoryCurve memory_curve(const Run& run, const LayerPrices& prices, int stage, const MemoryCurveOptions& options = {});

}  // namespace llmsim::sim
