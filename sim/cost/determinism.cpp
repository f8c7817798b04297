#include "sim/cost/determinism.h"

namespace llmsim::sim {

Bytes filled_bytes(const Operator& op, bool backward, double element, const Framework& framework) {
  if (!framework.determinism.fills_new_tensors) return Bytes(0.0);
  switch (op.kind) {
    case OperatorKind::Gemm: {
      const bool accumulates = op.weight_gradient && framework.gradients.accumulated_by_gemm;
      return accumulates ? Bytes(0.0) : Bytes(static_cast<double>(op.batch * op.m) * static_cast<double>(op.n) * element);
    }
    case OperatorKind::Attention: return (backward ? 3.0 / 8.0 : 1.0 / 4.0) * op.moved;
    case OperatorKind::Norm: return op.moved / (backward ? 3.0 : 2.0);
    case OperatorKind::Cast:
    case OperatorKind::Copy: return op.moved / 2.0;
    default: return Bytes(0.0);
  }
}

}  // namespace llmsim::sim
