#include "sim/cost/tensor_overlap.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

bool in_product(const Operator& op) { return op.kind == OperatorKind::Gemm || op.kind == OperatorKind::Cast; }

}  // namespace

Seconds pipelined_exposed(Seconds collective, const OverlapProduct& product, int pieces, double contention) {
  const double others = pieces - 1.0;
  const Seconds overlapped = product.piece + others * std::max(product.piece, collective / others);
  const Seconds shown = std::clamp(overlapped - product.whole, Seconds(0.0), collective);
  return shown + contention * (collective - shown);
}

Seconds beside_exposed(Seconds collective, Seconds product, double contention) {
  const Seconds hidden = std::min(collective, product);
  return collective - hidden + contention * hidden;
}

OperatorRange overlapped_products(const OperatorList& operators, std::size_t index) {
  OperatorRange range{.first = index, .last = index};
  if (operators[index].tensor_overlap == TensorOverlap::Follows) {
    while (range.first > 0 && in_product(operators[range.first - 1])) --range.first;
    return range;
  }
  ++range.first;
  while (range.first < operators.size() && operators[range.first].kind == OperatorKind::Collective) ++range.first;
  range.last = range.first;
  while (range.last < operators.size() && in_product(operators[range.last])) ++range.last;
  return range;
}

bool is_overlapped(const Operator& collective, const Operator& product) {
  if (product.kind != OperatorKind::Gemm) return false;
  return product.weight_gradient == (collective.tensor_overlap == TensorOverlap::WeightGradient);
}

}  // namespace llmsim::sim
