// Which operators to time: those that the simulator makes of the catalogue's
// models under usual strategies.
//
// Every model whose layers the runtime executes is lowered whole and divided over 1 to 8 tensor
// ranks, at several micro-batches, with unfused and blockwise attention, plain and chunked loss; of
// MoE models and MLA what is theirs alone.  Equal operators count once. What is left is thinned out
// to what the memory and the time allow: evenly over each kind, pass and format by the logarithm of
// the work, so that small and large shapes are both there.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/rank_shape.h"
#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

// One operator as a model has it, with all that is needed to execute it.
struct KernelCase {
  sim::Operator op;
  bool backward = false;
  sim::DType dtype = sim::DType::Fp32;  // of activations
  sim::Transformer model;
  sim::Strategy strategy;
  RankShape shape;
  // Elements that a cast, the norm of gradients or the optimizer goes over.
  std::int64_t weights = 0;
  double expected = 0.0;  // seconds of one execution, roughly

  // "gemm mlp_up forward fp32 1x512x3072x768": unique among different operators.
  std::string key() const;
};

struct ShapeLimits {
  std::vector<sim::Precision> precisions;
  sim::Bytes memory{};         // that the operands of one case may take
  sim::Seconds longest{};      // of one execution
  sim::FlopsPerSecond rate{};  // rough, to expect times with
  sim::BytesPerSecond bandwidth{};
  int shortest_sequence = 128, longest_sequence = 2048;  // tokens
  int cases_per_kind = 8;  // of each kind, pass and format, twice as many GEMMs; 0: all of them
};

std::vector<KernelCase> kernel_cases(const ShapeLimits& limits);

// Of an MoE model, those that no dense model has: the grouped GEMMs, the router's choice, and moves
// of rows.
std::vector<KernelCase> expert_cases_of(const sim::Transformer& model,
                                        const sim::Strategy& strategy);
bool is_of_experts(const sim::Operator& op);

// Operators of one dense model under one strategy, thinned out by nothing.
std::vector<KernelCase> cases_of(const sim::Transformer& model, const sim::Strategy& strategy);

// "forward", "backward".
const char* pass_name(bool backward);

}  // namespace llmsim::runtime
