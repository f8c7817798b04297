#include "sim/operators/layer_graph.h"

#include <algorithm>
#include <utility>

namespace llmsim::sim {
TensorId LayerGraph::tensor(const char* name, TensorShape shape, TensorRole role) {
  tensors_.push_back({.name = name, .shape = shape, .role = role});
  return static_cast<TensorId>(tensors_.size() - 1);
}

Node& LayerGraph::add(Module module) {
  Node& node = nodes_.emplace_back();
  node.module_ = module;
  node.second_half_ = second_half_;
  node.first_operator_ = forward.size();
  return node;
}

Node& LayerGraph::add(Module module, LayerOperators operators) {
  operators.set_module(module);
  return add_as_they_are(module, operators);
}

Node& LayerGraph::add_as_they_are(Module module, const LayerOperators& operators) {
  Node& node = add(module);
  forward.insert(forward.end(), operators.forward.begin(), operators.forward.end());
  backward.insert(backward.end(), operators.backward.rbegin(), operators.backward.rend());
  recompute.insert(recompute.end(), operators.recompute.begin(), operators.recompute.end());
  return node;
}

Node& LayerGraph::add_in_place(TensorId addend, TensorId into, LayerOperators operators) {
  Node& node = add(Module::Residual, std::move(operators)).reads(addend, into);
  node.adds_ = true;
  return node;
}

void LayerGraph::add_forward(Module module, Operator op) {
  op.module = module;
  forward.push_back(op);
}

void LayerGraph::add_backward(Module module, Operator op) {
  op.module = module;
  backward.push_back(op);
}

// While the layer is built its backward operators stand from the beginning of the layer to its end,
// so that of a part the last data gradient is the first one found.
void LayerGraph::share_gradient(std::size_t place, const SharedInput& input) {
  const auto begin = backward.begin() + static_cast<std::ptrdiff_t>(place);
  auto sum = std::find_if(begin, backward.end(), [](const Operator& op) {
    return op.kind == OperatorKind::Gemm && !op.weight_gradient;
  });
  if (sum == backward.end()) sum = begin;
  while (sum != begin && std::prev(sum)->kind == OperatorKind::Cast) --sum;
  if (input.sum) sum = std::next(backward.insert(sum, *input.sum));
  if (input.gather_again)
    backward.insert(std::find_if_not(sum, backward.end(), in_gemms), *input.gather_again);
}

void LayerGraph::set_ragged(std::size_t first_forward, std::size_t first_backward) {
  for (std::size_t i = first_forward; i < forward.size(); ++i) forward[i].ragged = true;
  for (std::size_t i = first_backward; i < backward.size(); ++i) backward[i].ragged = true;
}

void LayerGraph::finish() { std::reverse(backward.begin(), backward.end()); }

OperatorRange LayerGraph::operators_of(std::size_t node) const {
  return {.first = nodes_[node].first_operator(),
          .last = node + 1 == nodes_.size() ? forward.size() : nodes_[node + 1].first_operator()};
}

std::optional<Module> LayerGraph::writer(TensorId tensor) const {
  for (const Node& node : nodes_) {
    if (node.writes().has(tensor)) return node.module();
  }
  return std::nullopt;
}

}  // namespace llmsim::sim
