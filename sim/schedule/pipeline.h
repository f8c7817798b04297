// A pipeline schedule as events: every forward and backward pass of every micro-batch on every stage, in the order the schedule
// prescribes, each starting when its stage is free and its input has arrived.
//
// With p stages, m micro-batches, v chunks per stage, equal forward time F and backward time B per stage and free transfers the
// makespan is (Narayanan et al. 2021)
//
//   GPipe, 1F1B   (m + p - 1)(F + B)          interleaved   m (F + B) + (p - 1)(F + B) / v
//
// and at most m (GPipe), min(m, p) (1F1B, first stage), or p + (p - 1)/v + ... (interleaved) micro-batches are in flight.
#pragma once

#include <span>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Times of one model chunk for one micro-batch.  Chunk c of stage s holds model part c * stages + s.
struct ChunkTimes {
  Seconds forward{};
  Seconds backward{};
};

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages = 1;
  int virtual_stages = 1;  // chunks per stage
  int num_microbatches = 1;
  Seconds transfer{};  // activation or gradient from one stage to the next
};

// The pipeline of a strategy, with free transfers.
PipelineShape pipeline_shape(const Strategy& strategy);

// One pass of a stage: a micro-batch through one of its chunks.
struct PipelinePass {
  int chunk = 0;
  int microbatch = 0;
  bool backward = false;
};

// The passes of a stage in the order that the schedule prescribes: `simulate_pipeline` runs the stages' orders against each
// other, and the runtime executes them.
std::vector<PipelinePass> stage_order(const PipelineShape& shape, int stage);

struct PipelineTimes {
  Seconds makespan{};
  std::vector<Seconds> finish;  // when each stage ends its last backward pass
};

// After a few rounds of all stages the events repeat with a fixed period; longer pipelines are simulated up to there and the rest
// is that many periods.
//
// `chunks[c * stages + s]`.  Requires num_microbatches >= 1, and at least `stages` of them for Interleaved.
PipelineTimes simulate_pipeline(const PipelineShape& shape, std::span<const ChunkTimes> chunks);

// Messages of one direction that a stage has under way at once when each is waited for as late as possible: with fewer, stages
// whose sends wait for a receiver would wait for one another in a ring.  1, unless interleaving deals micro-batches in groups
// that are larger than the stages: then group - stages + 1.
int messages_under_way(const PipelineShape& shape);

// Largest number of micro-batch chunks whose activations stage `stage` holds at once.
int peak_in_flight(const PipelineShape& shape, int stage);

}  // namespace llmsim::sim
