// Why kernels and collectives take as long as they do: each distinct one of a run with the factors
// of its rate.
//
// Times are those that the step is made of (cost/price.h).  The factors of a kernel and
// the peak of its format give the rate that it achieves:
//
//   flops / time = peak * product of rate_factors
#pragma once

#include <vector>

#include "sim/cost/collective.h"
#include "sim/cost/contention.h"
#include "sim/cost/kernels.h"
#include "sim/run.h"
#include "sim/schedule/stage_work.h"

namespace llmsim::sim {

// What a kernel computes: outputs (recomputed ones too), gradients of activations, gradients of
// weights.  The backward pass of attention makes all its gradients at once.
enum class KernelPass { Forward, DataGradient, WeightGradient, Backward };

const char* name_of(KernelPass pass);  // "forward", "dgrad", "wgrad", "backward"

// One of the numbers between the peak and the achieved rate.
struct RateFactor {
  const char* key = "";
  double value = 1.0;
};

struct ExplainedGemm {
  Operator op;
  KernelPass pass = KernelPass::Forward;
  GemmFactors alone;
  StepFactors in_step;

  Seconds time() const { return alone.time() / in_step.rate(); }
  FlopsPerSecond rate() const { return op.flops / time(); }
};

struct ExplainedAttention {
  Operator op;
  KernelPass pass = KernelPass::Forward;
  AttentionFactors alone;
  StepFactors in_step;

  Seconds time() const { return alone.time() / in_step.rate(); }
  FlopsPerSecond rate() const { return op.flops / time(); }
};

struct ExplainedCollective {
  RepeatedCollective call;
  GroupPlacement place;
  CollectiveTerms terms;  // of one call

  // As nccl-tests define them.
  BytesPerSecond algbw() const { return call.message / terms.time; }
  BytesPerSecond busbw() const { return bus_factor(call.kind, place.ranks) * algbw(); }
};

std::vector<RateFactor> rate_factors(const ExplainedGemm& gemm);
std::vector<RateFactor> rate_factors(const ExplainedAttention& attention);

// Of blocks with an MLP and of MoE blocks, of the embedding and of the LM head, each shape of a
// pass once.  A run that has none of flash attention gets an empty list.  Require a run that keeps
// the rules of strategy/validity.h.
std::vector<ExplainedGemm> explained_gemms(const Run& run);
std::vector<ExplainedAttention> explained_attention(const Run& run);
// The collectives of the busiest rank.
std::vector<ExplainedCollective> explained_collectives(const Run& run);

}  // namespace llmsim::sim
