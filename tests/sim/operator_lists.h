// Looking things up in lists of operators.
#pragma once

#include <algorithm>
#include <string_view>

#include "sim/operators/operator.h"

namespace llmsim::sim {

// The first operator with the label; there must be one.
inline const Operator& named(const OperatorList& list, std::string_view label) {
  return *std::find_if(list.begin(), list.end(), [&](const Operator& op) { return label == op.label; });
}

inline int count_of(const OperatorList& list, OperatorKind kind) {
  return static_cast<int>(std::count_if(list.begin(), list.end(), [&](const Operator& op) { return op.kind == kind; }));
}

inline double gemm_flops(const OperatorList& list) {
  double sum = 0.0;
  for (const Operator& op : list) sum += op.kind == OperatorKind::Gemm ? op.flops.value() : 0.0;
  return sum;
}

}  // namespace llmsim::sim
