// The passes of a pipeline stage in the order that its schedule prescribes.
//
//   GPipe, 1F1B, interleaved   forward passes until the schedule's warm-up is through, then one forward and one backward pass in
//                              turn, then the remaining backward passes (Narayanan et al. 2021)
//   ZB-H1, ZB-V, DualPipe      see split_order.h
#pragma once

#include <vector>

#include "sim/base/quantity.h"
#include "sim/strategy/stage_layout.h"

namespace llmsim::sim {

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages = 1;
  int virtual_stages = 1;  // parts of the model per stage
  int num_microbatches = 1;
  Seconds forward_transfer{};   // of activations from one stage to the next
  Seconds backward_transfer{};  // of their gradients, back
  double exchange_loss = 0.0;   // share of its rate that compute loses beside an all-to-all, in passes that overlap

  StageLayout layout() const;
};

// The pipeline of a strategy, with free transfers.
PipelineShape pipeline_shape(const Strategy& strategy);

// A backward pass is whole, or it is two: the gradients of the data, which other stages wait for, and those of the weights.
enum class PassKind { Forward, Backward, DataGradient, WeightGradient };

// One pass of a stage: a micro-batch through one of its chunks.  Micro-batches that enter a DualPipe at the last stage are the
// second half of all.
struct PipelinePass {
  int chunk = 0;
  int microbatch = 0;
  PassKind kind = PassKind::Forward;
  bool joins_next = false;  // executed together with the next pass, each one's all-to-alls beside the other's compute

  bool backward() const { return kind != PassKind::Forward; }
  bool operator==(const PipelinePass&) const = default;
};

// Micro-batches that go through one chunk before the next under interleaving: the number of stages,
// or the next larger number that leaves no last group smaller than the stages, which would wait for
// itself.
int microbatch_group(const PipelineShape& shape);

// Forward passes that a stage runs before its first backward pass, in schedules with whole backward
// passes.
int warmup_passes(const PipelineShape& shape, int stage);

// `simulate_pipeline` runs the stages' orders against each other, and the runtime executes them.
std::vector<PipelinePass> stage_order(const PipelineShape& shape, int stage);

// Messages of one direction that a stage has under way at once when each is waited for as late as possible: with fewer, stages
// whose sends wait for a receiver would wait for one another in a ring.  1, unless interleaving deals micro-batches in groups
// that are larger than the stages: then group - stages + 1.  Of schedules with whole backward passes.
int messages_under_way(const PipelineShape& shape);

// Largest number of micro-batch chunks whose activations stage `stage` holds at once, or the part of them that weight gradients
// still need.
int peak_in_flight(const PipelineShape& shape, int stage);

}  // namespace llmsim::sim
