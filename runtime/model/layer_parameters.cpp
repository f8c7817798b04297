#include "runtime/model/layer_parameters.h"

#include "runtime/model/block.h"

namespace llmsim::runtime {
namespace {

using sim::LayerWeight;
using sim::TensorAxis;

bool is_routed(const LayerWeight& weight) { return weight.part == sim::LayerPart::Experts; }

LayerWeight on_rank(const LayerWeight& whole, const RankShape& shape) {
  if (!is_routed(whole)) return whole.on_rank(shape.tensor_ranks);
  LayerWeight weight = whole.on_rank(shape.whole_experts ? 1 : shape.tensor_ranks);
  weight.count = static_cast<int>(shape.experts);
  return weight;
}

// The outputs of q, k and v, or of gate and up.
std::vector<std::int64_t> side_by_side(const LayerWeight& weight, const RankShape& shape) {
  const std::int64_t kv = shape.kv_heads * shape.head_dim;
  if (weight.name == sim::WeightName::Qkv) return {shape.heads * shape.head_dim, kv, kv};
  return std::vector<std::int64_t>(static_cast<std::size_t>(weight.side_by_side),
                                   weight.columns / weight.side_by_side);
}

std::vector<ParameterShape> parameters_of(const BlockContext& context, sim::LayerKind kind,
                                          const std::string& prefix, bool routed) {
  std::vector<ParameterShape> list;
  for (const LayerWeight& whole : sim::layer_weights(context.model, kind)) {
    if (is_routed(whole) != routed) continue;
    const LayerWeight weight = on_rank(whole, context.shape);
    const std::size_t first = list.size();
    add_parameters(list, weight, prefix + sim::name_of(weight.name));
    if (weight.divided != TensorAxis::Columns) continue;
    for (std::size_t i = first; i < list.size(); ++i)
      list[i].side_by_side = side_by_side(weight, context.shape);
  }
  return list;
}

}  // namespace

void add_parameters(std::vector<ParameterShape>& list, const LayerWeight& weight,
                    const std::string& name) {
  const auto add = [&](const char* part, bool replicated) -> ParameterShape& {
    list.push_back({.name = name + part,
                    .sizes = {weight.columns},
                    .replicated = replicated,
                    .own_tokens = replicated && !weight.partial,
                    .partial_gradient = weight.partial,
                    .of_experts = is_routed(weight)});
    if (is_routed(weight)) list.back().sizes = {weight.count, weight.columns};
    return list.back();
  };
  ParameterShape& matrix = add(".weight", weight.divided == TensorAxis::None);
  matrix.initial = weight.rows > 0 ? Initial::Normal : Initial::Ones;
  matrix.inputs_divided = weight.divided == TensorAxis::Rows;
  if (weight.rows > 0) matrix.sizes.push_back(weight.rows);
  if (weight.biases == 0) return;
  // That of routed experts is another on each rank.
  add(".bias", weight.divided != TensorAxis::Columns && !is_routed(weight)).initial =
      Initial::Zeros;
}

std::vector<ParameterShape> block_parameters(const BlockContext& context, sim::LayerKind kind,
                                             const std::string& prefix) {
  return parameters_of(context, kind, prefix, false);
}

std::vector<ParameterShape> expert_parameters(const BlockContext& context,
                                              const std::string& prefix) {
  return parameters_of(context, sim::LayerKind::Moe, prefix, true);
}

}  // namespace llmsim::runtime
