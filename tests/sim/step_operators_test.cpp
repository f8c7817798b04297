#include "sim/schedule/step_operators.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr Term kOfOperators[] = {Term::ForwardGemm,        Term::ForwardAttention,
                                 Term::ForwardMemoryBound, Term::BackwardGemm,
                                 Term::BackwardAttention,  Term::BackwardMemoryBound,
                                 Term::Recompute,          Term::HeadAndLoss,
                                 Term::Embedding,          Term::TensorExposed};

// Sixteen devices with four micro-batches each.
Run busy_run() {
  Run run = small_run(16);
  run.strategy.global_batch = 64;
  run.strategy.dp = 16;
  return run;
}

// What operators take beyond the components of the step that consist of them, as a share.
double beyond(const Run& run) {
  const StepOperators step = step_operators(run);
  Seconds operators, terms = -step.closing_tensor;
  for (const StepOperator& one : step.operators) operators += one.time;
  for (const Term term : kOfOperators) terms += step.terms[term];
  return operators / terms - 1.0;
}

TEST(StepOperators, AddUpToTheComponentsThatConsistOfThem) {
  sim::Run run = busy_run();
  EXPECT_NEAR(beyond(run), 0.0, 1e-12);
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.recompute.kind = RecomputeKind::Full;
  EXPECT_NEAR(beyond(run), 0.0, 1e-12);
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.tp = 4;
  run.strategy.dp = 4;
  run.strategy.sequence_parallel = true;
  EXPECT_NEAR(beyond(run), 0.0, 1e-12);
  run.strategy.pp = 2;
  run.strategy.dp = 2;
  EXPECT_NEAR(beyond(run), 0.0, 1e-12);
}

// Each layer once for each micro-batch, forward and backward.
TEST(StepOperators, HaveTheirCallsByHand) {
  const sim::Run run = busy_run();
  const StepOperators step = step_operators(run);
  const double each = run.model.num_layers * step.microbatches;
  EXPECT_EQ(step.microbatches, run.strategy.num_microbatches());
  double forward = 0.0, backward = 0.0;
  for (const StepOperator& one : step.operators)
    if (one.op.kind == OperatorKind::Attention) (one.backward ? backward : forward) += one.calls;
  EXPECT_EQ(forward, each);
  EXPECT_EQ(backward, each);
}

}  // namespace
}  // namespace llmsim::sim
