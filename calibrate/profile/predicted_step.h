// A predicted step in the parts of a profiled one.
//
// Operators give the seconds of kernels (sim/schedule/step_operators.h), the components of the step
// (Term) what is waited for:
//
//   gemms, attention     operators of these kinds, whose times have what collectives of their layer
//                        slow down; what others slow down (Term::Contention) by their times
//   memory-bound         all other operators that are no casts, and copies of gradients
//   tensor, context,     exposed times of their collectives, in the head and closing ones too
//   expert
//   pipeline             bubble, and transfers between stages
//   data                 exposed gathers of weights and reductions of gradients
//   waiting              for the slowest device; of a single profile, which cannot tell it from the
//                        wire, part of data
//   idle                 waits for launches, and the host between steps
//
// Passes that are joined hide what their operators have of all-to-alls.  The remainder is what
// operators and components disagree about otherwise, such as windows of attention that differ
// between layers.
#pragma once

#include <vector>

#include "calibrate/profile/step_part.h"
#include "hwdb/profile/profile_trace.h"
#include "sim/predict.h"

namespace llmsim::calibrate {

// Distinct GEMMs: sizes as a set, whichever operand is which.
struct PredictedGemm {
  hwdb::GemmShape shape;
  double calls = 0.0;
  sim::Seconds time{};
};

struct PredictedStep {
  StepParts parts{};  // add up to the step
  sim::Seconds step{};
  double gemm_kernels = 0.0, memory_bound_kernels = 0.0, cast_kernels = 0.0;
  sim::Flops gemm_flops{}, attention_flops{};  // executed
  // Of forward passes without recomputation: what a block takes that is recomputed unasked.
  double attention_calls = 0.0;                          // kernels of forward passes
  double recomputed_calls = 0.0;                         // of attention, asked for
  double block_gemms = 0.0;                              // forward, without the LM head
  sim::Seconds forward_gemms{}, forward_memory_bound{};  // of blocks
  std::vector<PredictedGemm> gemms{};
};

// The same from the components of the step alone, as llmsim draws them in a trace: recomputed
// blocks and the LM head are GEMMs, and no kernel is counted.
PredictedStep drawn_step(const sim::Prediction& prediction);

// `several_ranks`: whether waiting is a part of its own.  Requires a prediction with a step time.
PredictedStep predicted_step(const sim::Prediction& prediction, bool several_ranks);

// The sizes of a GEMM in falling order: those of x W, of its transpose and of its gradients are
// equal sets.
hwdb::GemmShape sorted_sizes(const hwdb::GemmShape& shape);

}  // namespace llmsim::calibrate
