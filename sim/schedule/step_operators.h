// What the busiest stage executes in a step, operator by operator: each distinct one once, with all
// its calls.
//
// With m micro-batches through a model chunk (StageLayout::chunk_microbatches) an operator of its
// passes is called m times, and takes m times its time within its pass (pass_operators.h).  The
// times add up to the components of the step that consist of operators (Term) where all layers have
// the same kind of attention window and no passes are joined.  The update, copies of gradients and
// collectives of data ranks are components of the step, and none of these operators.
//
// The summing up is ours.
#pragma once

#include <vector>

#include "sim/operators/operator.h"
#include "sim/run.h"
#include "sim/schedule/passes.h"

namespace llmsim::sim {

struct StepOperator {
  Operator op;
  bool backward = false;
  bool recomputed = false;
  double calls = 0.0;
  double kernels = 0.0;  // launches of all calls; of a collective its messages
  Seconds time{};        // of all calls; of a collective what nothing hides
};

struct StepOperators {
  std::vector<StepOperator> operators;
  Terms terms;                // of the stage: they add up to the step
  Seconds closing_tensor{};   // part of terms[TensorExposed]: closing_collectives() (stage_work.h)
  double microbatches = 0.0;  // through each of its chunks
};

// Requires a run that breaks no rule, with its vocabulary padded, as that of a prediction.
StepOperators step_operators(const Run& run);

}  // namespace llmsim::sim
