#include "runtime/parallel/model_parallel_gradients.h"

#include <cmath>
#include <cstdint>

#include <ATen/ATen.h>

#include "runtime/kernels/adamw.h"
#include "runtime/parallel/gradient_pieces.h"

namespace llmsim::runtime {

using sim::GroupKind;

void ModelParallelGradients::sum(const std::vector<GradientSlice>& slices) const {
  if (divides_tokens_ && groups_.of(GroupKind::Tensor) != nullptr) sum_over_tokens(slices);
  if (groups_.of(GroupKind::Embedding) != nullptr) sum_tied_table(slices);
}

void ModelParallelGradients::sum_over_tokens(const std::vector<GradientSlice>& slices) const {
  std::vector<at::Tensor> parts;
  for (const GradientPiece& piece : gradient_pieces(slices)) {
    if (piece.parameter->own_tokens) parts.push_back(piece.gradient);
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
    if (piece.parameter->tied_apart) groups_.of(GroupKind::Embedding)->all_reduce(piece.gradient);
  }
}

bool ModelParallelGradients::counts(const ParameterShape& parameter) const {
  if (parameter.replicated && groups_.place(GroupKind::Tensor) != 0) return false;
  return !(parameter.tied_apart && groups_.place(GroupKind::Pipeline) != 0);
}

double ModelParallelGradients::norm(const std::vector<GradientSlice>& slices, Communicator* slice_group) const {
  std::vector<at::Tensor> counted;
  for (const GradientPiece& piece : gradient_pieces(slices)) {
    if (counts(*piece.parameter)) counted.push_back(piece.gradient);
  }
  const at::Tensor squares =
      counted.empty() ? at::zeros({}, slices.front().gradient.options().dtype(at::kFloat)) : squared_norm(counted);
  for (Communicator* group : {slice_group, groups_.of(GroupKind::Tensor), groups_.of(GroupKind::Pipeline)}) {
    if (group != nullptr) group->all_reduce(squares);
  }
  return squares.is_meta() ? 0.0 : std::sqrt(squares.item<double>());
}

}  // namespace llmsim::runtime
