// A pipeline schedule as events: every pass of every micro-batch on every stage, in the
// order the schedule prescribes (stage_order.h), each starting when its stage is free and
// its input has arrived.
//
// With p stages, m micro-batches, v chunks per stage, equal forward time F and backward time B per
// stage and free transfers the makespan is (source: Narayanan et al. 2021, arXiv 2104.04473,
// section 2.2)
//
//   GPipe, 1F1B   (m + p - 1)(F + B)          interleaved   m (F + B) + (p - 1)(F + B) / v
//
// and at most m (GPipe), min(m, p) (1F1B, first stage), or p + (p - 1)/v + ... (interleaved)
// micro-batches are in flight.  Of schedules that split backward passes stage_order.h has bubbles
// and micro-batches in flight.
#pragma once

#include <span>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/pipeline/stage_order.h"

namespace llmsim::sim {

// Times of one model chunk (stages.h) for one micro-batch.
struct ChunkTimes {
  Seconds forward{};
  Seconds backward{};             // whole: gradients of data and weights
  Seconds weights{};              // of it: gradients of the weights
  Seconds forward_all_to_all{};   // of `forward`: all-to-alls, which an overlapped pass can hide
  Seconds backward_all_to_all{};  // of `backward`
};

// A forward and a backward pass of one stage executed together: the all-to-alls of each overlap
// with the compute of the other and take `loss` of its rate (cost/contention.h); what takes longer
// than that compute is exposed.
struct JoinedPass {
  Seconds exposed{};   // of its all-to-alls
  Seconds slowdown{};  // of its compute
};
struct JoinedPasses {
  JoinedPass forward, backward;
  Seconds total{};
  Seconds hidden{};    // of the all-to-alls of both
  Seconds slowdown{};  // of the compute of both
};
JoinedPasses joined_passes(const ChunkTimes& forward, const ChunkTimes& backward, double loss);

struct PipelineTimes {
  Seconds makespan{};
  std::vector<Seconds> start;   // when each stage begins its first pass
  std::vector<Seconds> finish;  // when it ends its last one
  std::vector<Seconds> idle;    // what it waits for between its passes, from the first to the last
};

// The times of pipeline_events.  Of 1F1B and interleaved pipelines, passes that repeat earlier ones
// are not simulated; those of the other schedules all are.
//
// `chunks` has the times of every model chunk, in the order of shape.layout().  Requires
// num_microbatches >= 1, and at least `stages` of them for Interleaved; see
// stage_order.h for the others.
PipelineTimes simulate_pipeline(const PipelineShape& shape, std::span<const ChunkTimes> chunks);

// A lower bound of the time at which each stage ends its last pass, for schedules with whole
// backward passes.  In any order of passes, stage k begins when a first micro-batch has come
// through the first chunks of the stages before it, and executes m times the work of its
// chunks; its last pass is a backward pass through its first chunk, whose gradient then goes
// back through those stages:
//
//   end_k = max(sum over j < k of (F_j + send) + m W_k,  end_(k+1) + send + B_k)
//
// with F, B of first chunks and W of all chunks of a stage.  Exact for 1F1B with equal stages and
// free transfers.  Except for rounding, no end of simulate_pipeline is before it.
std::vector<Seconds> earliest_finishes(const PipelineShape& shape,
                                       std::span<const ChunkTimes> chunks);

// A pass on its stage.  Two that are executed together have the same times.
struct PassEvent {
  PipelinePass pass;
  Seconds start{};
  Seconds end{};
};

// All passes of every stage in order, whatever their number.
std::vector<std::vector<PassEvent>> pipeline_events(const PipelineShape& shape,
                                                    std::span<const ChunkTimes> chunks);

}  // namespace llmsim::sim
