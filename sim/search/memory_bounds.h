// How much memory a rank needs at least, without following a step: a bound with which a search
// leaves out strategies that do not fit, or that can be neither among the best nor on the
// Pareto front.
//
// It is a true lower bound of Memory::peak, whatever the strategy, lowered as that of the step time
// is (step_bounds.h).
//
// After its warm-up a stage holds what lasts (states, gradients that persist), and what each
// forward pass that has no backward pass yet has left; then the last chunk's backward pass begins
// and its last layer rises. Where gradients come and go, the update finds all of them, and has
// its temporaries.
//
// Source: ours.
#pragma once

#include <vector>

#include "sim/memory/shards.h"
#include "sim/pipeline/stage_order.h"
#include "sim/run.h"
#include "sim/search/step_bounds.h"

namespace llmsim::sim {

// Bytes of a stage that are not activations, at least.
struct StateBounds {
  double passes = 0.0;  // while passes run
  double steady = 0.0;  // and all blocks have gradients, to which micro-batches add
  double update = 0.0;  // while the optimizer runs
};

// Of stages that hold these parameters: of the stages of each kind of a pipeline, or of what every
// stage of a layout holds whose pipeline is not chosen yet (least_stage_bytes).
std::vector<StateBounds> state_bounds(const Run& run, const RankParameters& rank,
                                      const std::vector<StageParameters>& held);

// What passes in flight hold on a stage: at the peak of the first backward pass, and next to the
// gradients of all blocks.
struct StageActivations {
  double first = 0.0, steady = 0.0;  // bytes
  // There is a forward pass after blocks have left all their gradients: of a second micro-batch, or
  // with several chunks, whose gradients may be reduced one by one, that of steady_passes().
  bool goes_on = false;
};

// Forward passes of a stage whose backward passes are to come, by chunk.
struct PassesInFlight {
  std::vector<int> first;   // when the first backward pass begins
  std::vector<int> steady;  // next to the gradients of all blocks; empty: never so many again
};

// Of the stages of each kind; none of schedules that split or join passes.
std::vector<PassesInFlight> passes_in_flight(const PipelineShape& shape, const StageCounts& counts);

// Of the stages of each kind.
void activation_bounds(const PipelineShape& shape, const std::vector<PassesInFlight>& passes,
                       const StageCounts& counts, std::size_t recompute, const LayerBounds& layers,
                       std::vector<StageActivations>& bounds);

// The most of all kinds of stages.
Bytes peak_bound(const std::vector<StateBounds>& states,
                 const std::vector<StageActivations>& activations);

}  // namespace llmsim::sim
