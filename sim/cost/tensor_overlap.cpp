#include "sim/cost/tensor_overlap.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

bool in_gemm(const Operator& op) { return op.kind == OperatorKind::Gemm || op.kind == OperatorKind::Cast; }

}  // namespace

BesideTimes pipelined(Seconds collective, const OverlapGemm& gemm, int pieces, int messages, double loss) {
  const double beside = pieces - 1.0;
  const Seconds message = collective / messages;
  const BesideTimes step = run_beside(message, gemm.piece, loss);
  const Seconds last = (messages - beside) * message;
  const Seconds shown = pieces * gemm.piece + beside * step.exposed + last - gemm.whole;
  const Seconds exposed = std::clamp(shown, Seconds(0.0), collective);
  return {.exposed = exposed, .slowdown = std::min(beside * step.slowdown, collective - exposed)};
}

OperatorRange overlapped_gemms(const OperatorList& operators, std::size_t index) {
  OperatorRange range{.first = index, .last = index};
  if (operators[index].tensor_overlap == TensorOverlap::Follows) {
    while (range.first > 0 && in_gemm(operators[range.first - 1])) --range.first;
    return range;
  }
  ++range.first;
  while (range.first < operators.size() && operators[range.first].kind == OperatorKind::Collective) ++range.first;
  range.last = range.first;
  while (range.last < operators.size() && in_gemm(operators[range.last])) ++range.last;
  return range;
}

bool is_overlapped(const Operator& collective, const Operator& gemm) {
  if (gemm.kind != OperatorKind::Gemm) return false;
  return gemm.weight_gradient == (collective.tensor_overlap == TensorOverlap::WeightGradient);
}

}  // namespace llmsim::sim
