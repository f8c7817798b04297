#include "runtime/parallel/model_parallel_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <ATen/ATen.h>

#include "runtime/kernels/adamw.h"

namespace llmsim::runtime {
namespace {

using sim::GroupKind;

// Calls `visit(shape, gradient)` for what the slices have of each parameter.
template <typename Visit>
void for_each_parameter(const std::vector<GradientSlice>& slices, const Visit& visit) {
  for (const GradientSlice& slice : slices) {
    const ParameterUnit& unit = *slice.unit;
    const std::int64_t end = slice.begin + slice.gradient.numel();
    for (std::size_t i = 0; i < unit.shapes().size(); ++i) {
      const std::int64_t first = std::max(slice.begin, unit.offset(i));
      const std::int64_t last = std::min(end, i + 1 < unit.shapes().size() ? unit.offset(i + 1) : unit.parameters());
      if (first < last) visit(unit.shapes()[i], slice.gradient.narrow(0, first - slice.begin, last - first));
    }
  }
}

}  // namespace

void ModelParallelGradients::sum(const std::vector<GradientSlice>& slices) const {
  if (divides_tokens_ && groups_.of(GroupKind::Tensor) != nullptr) sum_over_tokens(slices);
  if (groups_.of(GroupKind::Embedding) != nullptr) sum_tied_table(slices);
}

void ModelParallelGradients::sum_over_tokens(const std::vector<GradientSlice>& slices) const {
  std::vector<at::Tensor> parts;
  for_each_parameter(slices, [&](const ParameterShape& parameter, const at::Tensor& gradient) {
    if (parameter.own_tokens) parts.push_back(gradient);
  });
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
  for_each_parameter(slices, [&](const ParameterShape& parameter, const at::Tensor& gradient) {
    if (parameter.tied_apart) groups_.of(GroupKind::Embedding)->all_reduce(gradient);
  });
}

bool ModelParallelGradients::counts(const ParameterShape& parameter) const {
  if (parameter.replicated && groups_.place(GroupKind::Tensor) != 0) return false;
  return !(parameter.tied_apart && groups_.place(GroupKind::Pipeline) != 0);
}

double ModelParallelGradients::norm(const std::vector<GradientSlice>& slices, Communicator* slice_group) const {
  std::vector<at::Tensor> counted;
  for_each_parameter(slices, [&](const ParameterShape& parameter, const at::Tensor& gradient) {
    if (counts(parameter)) counted.push_back(gradient);
  });
  const at::Tensor squares =
      counted.empty() ? at::zeros({}, slices.front().gradient.options().dtype(at::kFloat)) : squared_norm(counted);
  for (Communicator* group : {slice_group, groups_.of(GroupKind::Tensor), groups_.of(GroupKind::Pipeline)}) {
    if (group != nullptr) group->all_reduce(squares);
  }
  return squares.is_meta() ? 0.0 : std::sqrt(squares.item<double>());
}

}  // namespace llmsim::runtime
