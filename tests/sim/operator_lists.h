// Looking things up in lists of operators, and what blocks save for their backward passes.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/operator.h"
#include "sim/operators/recomputation.h"

namespace llmsim::sim {

// The first operator with the label; there must be one.
inline const Operator& named(const OperatorList& list, std::string_view label) {
  return *std::find_if(list.begin(), list.end(),
                       [&](const Operator& op) { return label == op.label; });
}

// The operators of a layer that `chosen` takes.
template <class Chosen>
LayerOperators operators_where(const LayerOperators& layer, const Chosen& chosen) {
  LayerOperators some;
  const auto copy = [&](const OperatorList& from, OperatorList& to) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to), chosen);
  };
  copy(layer.forward, some.forward);
  copy(layer.backward, some.backward);
  copy(layer.recompute, some.recompute);
  return some;
}

inline int count_of(const OperatorList& list, OperatorKind kind) {
  return static_cast<int>(
      std::count_if(list.begin(), list.end(), [&](const Operator& op) { return op.kind == kind; }));
}

inline double gemm_flops(const OperatorList& list) {
  double sum = 0.0;
  for (const Operator& op : list) sum += op.kind == OperatorKind::Gemm ? op.flops.value() : 0.0;
  return sum;
}

// Of a field of all operators of a list.
template <class Value>
Value total(const OperatorList& list, Value Operator::*field) {
  Value sum{};
  for (const Operator& op : list) sum += op.*field;
  return sum;
}
inline Flops total_flops(const OperatorList& list) { return total(list, &Operator::flops); }

// Of a block under the strategy's recomputation, as `recompute` where that is given.
template <class Run>
Bytes saved_by_block(const Run& run, std::optional<RecomputeKind> recompute = RecomputeKind::None,
                     LayerKind kind = LayerKind::Dense) {
  const LayerGraph block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kind);
  Recompute chosen = run.strategy.recompute;
  chosen.kind = recompute.value_or(chosen.kind);
  return saved_bytes(block, recomputation_of(block, chosen, run.model, run.framework, kind));
}

// Mean and deviation of two layer norms, of `rows` rows, in 16 bits.
constexpr double norm_sums(double rows) { return 2.0 * 2.0 * 2.0 * rows; }

}  // namespace llmsim::sim
