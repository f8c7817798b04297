#include "runtime/parallel/model_parallel_gradients.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "runtime/kernels/adamw.h"

namespace llmsim::runtime {

std::vector<GradientPiece> gradient_pieces(const std::vector<GradientSlice>& slices) {
  std::vector<GradientPiece> pieces;
  for (const GradientSlice& slice : slices) {
    const ParameterUnit& unit = *slice.unit;
    const std::int64_t end = slice.begin + slice.gradient.numel();
    for (std::size_t i = 0; i < unit.shapes().size(); ++i) {
      const std::int64_t first = std::max(slice.begin, unit.offset(i));
      const std::int64_t last =
          std::min(end, i + 1 < unit.shapes().size() ? unit.offset(i + 1) : unit.parameters());
      if (first >= last) continue;
      pieces.push_back({.parameter = &unit.shapes()[i],
                        .begin = first - unit.offset(i),
                        .gradient = slice.gradient.narrow(0, first - slice.begin, last - first)});
    }
  }
  return pieces;
}

using sim::GroupKind;

void ModelParallelGradients::sum(const std::vector<GradientSlice>& slices) const {
  if (groups_.of(GroupKind::Tensor) != nullptr) sum_partial(slices);
  if (groups_.of(GroupKind::Embedding) != nullptr) sum_tied_table(slices);
}

void ModelParallelGradients::sum_partial(const std::vector<GradientSlice>& slices) const {
  std::vector<at::Tensor> parts;
  for (const GradientPiece& piece : gradient_pieces(slices)) {
    if (piece.parameter->partial_gradient || (piece.parameter->own_tokens && divides_tokens_))
      parts.push_back(piece.gradient);
  }
  if (parts.empty()) return;
  const at::Tensor together = at::cat(parts);
  groups_.of(GroupKind::Tensor)->all_reduce(together);
  std::int64_t begin = 0;
  for (at::Tensor& part : parts) {
    part.copy_(together.narrow(0, begin, part.numel()));
    begin += part.numel();
  }
}

void ModelParallelGradients::sum_tied_table(const std::vector<GradientSlice>& slices) const {
  for (const GradientPiece& piece : gradient_pieces(slices)) {
    if (piece.parameter->tied_across_stages)
      groups_.of(GroupKind::Embedding)->all_reduce(piece.gradient);
  }
}

bool ModelParallelGradients::counts(const ParameterShape& parameter) const {
  if (parameter.replicated && groups_.place(GroupKind::Tensor) != 0) return false;
  return !(parameter.tied_across_stages && groups_.place(GroupKind::Pipeline) != 0);
}

at::Tensor ModelParallelGradients::squares(const std::vector<GradientSlice>& slices,
                                           bool divided) const {
  std::vector<at::Tensor> counted;
  for (const GradientPiece& piece : gradient_pieces(slices)) {
    if (this->divided(*piece.parameter) == divided && counts(*piece.parameter))
      counted.push_back(piece.gradient);
  }
  return counted.empty() ? at::zeros({}, slices.front().gradient.options().dtype(at::kFloat))
                         : squared_norm(counted);
}

// What this rank adds of experts that other ranks do not have.
at::Tensor ModelParallelGradients::expert_squares(const std::vector<GradientSlice>& slices) const {
  at::Tensor sum = squares(slices, true);
  if (slices_) return sum;
  if (Communicator* const experts = groups_.of(GroupKind::Expert)) experts->all_reduce(sum);
  return whole_experts_ && groups_.place(GroupKind::Tensor) != 0 ? sum.zero_() : sum;
}

double ModelParallelGradients::norm(const std::vector<GradientSlice>& slices,
                                    Communicator* slice_group) const {
  const at::Tensor sum = squares(slices, false);
  if (divides_experts_) sum.add_(expert_squares(slices));
  for (Communicator* group :
       {slice_group, groups_.of(GroupKind::Tensor), groups_.of(GroupKind::Pipeline)}) {
    if (group != nullptr) group->all_reduce(sum);
  }
  return sum.is_meta() ? 0.0 : std::sqrt(sum.item<double>());
}

}  // namespace llmsim::runtime
