#include "sim/operators/recomputation.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
namespace {

// Unless a norm or a dropout mask after the last GEMM is needed again.
bool stops_early(const Transformer& model, const Framework& framework) {
  return framework.recompute_stops_early && framework.dropout == 0.0 && model.norms_per_layer < 4;
}

// What a policy saves of the outputs of a node, and whether nothing of them is left to be written
// again.
struct SavedOutputs {
  std::vector<TensorId> tensors;
  bool all = false;
};

// The output of a row-parallel GEMM, as summed over the tensor ranks.
TensorId summed(const LayerGraph& layer, TensorId partial) {
  for (const Node& node : layer.nodes()) {
    if (node.is_reduce_scatter() && node.reads().front() == partial) return node.writes().front();
  }
  return partial;
}

// Whether a policy that names outputs keeps those of a node.
bool keeps(const SavedGemms& policy, const Node& node) {
  switch (node.module()) {
    case Module::CoreAttention: return policy.core_attention;
    case Module::Qkv:
    case Module::MlaUp:
    case Module::MixerInput: return policy.qkv;
    case Module::AttentionOutput:
    case Module::MixerOutput: return policy.attention_output;
    case Module::MlpUp:
    case Module::ExpertUp:
    case Module::SharedUp: return policy.mlp_up;
    case Module::MlpDown:
    case Module::ExpertDown:
    case Module::SharedDown: return policy.mlp_down;
    default: return policy == kAllSavedGemms;
  }
}

SavedOutputs saved_outputs(const LayerGraph& layer, const Node& node, const SavedGemms& policy,
                           bool last, int& outputs) {
  const bool every_second = policy.every_second;
  const bool whole = every_second ? node.is_fused_attention() || node.is_reduce_scatter()
                                  : node.is_fused_attention() && policy.core_attention;
  if (whole) return {.tensors = {node.writes().begin(), node.writes().end()}, .all = true};
  SavedOutputs saved{.tensors = {}, .all = node.is_gemm()};
  for (const TensorId tensor : node.writes()) {
    if (!node.is_gemm() || layer[tensor].role == TensorRole::Statistic) continue;
    const bool odd = node.is_counted() && ++outputs % 2 == 1;
    const bool saves = every_second ? odd : keeps(policy, node);
    if (!saves)
      saved.all = false;
    else if (every_second || !node.is_row_parallel())
      saved.tensors.push_back(tensor);
    else if (!last)
      saved.tensors.push_back(summed(layer, tensor));
  }
  return saved;
}

// Of the modules that selective recomputation repeats, with those whose results the rest of the
// layer needs no second time.
ModuleSet executed_modules(const RecomputedModules& modules, const Transformer& model, bool moe) {
  ModuleSet executed = repeated_modules(modules, model, moe);
  if (modules.mlp && !moe) executed.add({Module::MlpDown});
  if (modules.moe && moe) executed.add({Module::Combine, Module::SharedDown});
  if (modules.shared_experts && moe && model.moe->num_shared_experts > 0)
    executed.add({Module::MoeInput, Module::SharedDown});
  return executed;
}

// Forward operators up to the first whose results nothing needs again; the casts before a GEMM make
// what it saves.
std::size_t needed_operators(const LayerGraph& layer, const Transformer& model,
                             const Framework& framework) {
  if (!stops_early(model, framework) || layer.needed_nodes() == layer.nodes().size())
    return layer.forward.size();
  std::size_t end = layer.nodes()[layer.needed_nodes()].first_operator();
  while (end < layer.forward.size() && layer.forward[end].kind == OperatorKind::Cast) ++end;
  return end;
}

// The columns of a GEMM that a policy does not save.
Operator columns_of(const Operator& whole, double share, DType output) {
  Operator columns = gemm(whole.label, whole.batch, whole.m, std::llround(share * real(whole.n)),
                          whole.k, whole.dtype, output);
  columns.module = whole.module;
  return columns;
}

// Backward passes have collectives of their own for what they need.  A node's outputs are those of
// its first GEMM; adapters beside it are always repeated.
OperatorList recomputed_by_operator(const LayerGraph& layer, std::size_t needed,
                                    const Recomputation& plan, DType activation) {
  OperatorList repeated;
  bool core = false;  // whether the core of attention is repeated
  for (std::size_t node = 0; node < layer.nodes().size(); ++node)
    core |= layer.nodes()[node].module() == Module::CoreAttention && plan.repeated[node];
  for (std::size_t node = 0; node < layer.nodes().size(); ++node) {
    const OperatorRange range = layer.operators_of(node);
    bool first = layer.nodes()[node].is_gemm();
    for (std::size_t i = range.first; i < std::min(range.last, needed); ++i) {
      const Operator& op = layer.forward[i];
      const bool in_core = op.module == Module::CoreAttention;
      if (in_core ? !core : op.kind == OperatorKind::Collective) continue;
      if (in_core || op.kind != OperatorKind::Gemm) {
        repeated.push_back(op);
        continue;
      }
      const double share = first ? repeated_share(layer, plan, node) : 1.0;
      first = false;
      if (share > 0.0) repeated.push_back(columns_of(op, share, activation));
    }
  }
  return repeated;
}

template <class Condition>
Bytes size_of_tensors(const LayerGraph& layer, const Condition& chosen) {
  Bytes sum;
  for (std::size_t t = 0; t < layer.tensors().size(); ++t) {
    if (chosen(t)) sum += layer.tensors()[t].size();
  }
  return sum;
}

bool reads_elsewhere(const LayerGraph& layer, Module module, TensorId tensor) {
  return std::any_of(layer.nodes().begin(), layer.nodes().end(), [&](const Node& node) {
    return node.module() != module && node.reads().has(tensor);
  });
}

// Of what a layer has saved that which the nodes of some modules save of their inputs and for
// themselves, not what they give to other modules.
Bytes saved_inputs(const LayerGraph& layer, const Recomputation& plan, ModuleSet first_half,
                   ModuleSet second_half) {
  std::vector<bool> inputs(layer.tensors().size(), false);
  for (const Node& node : layer.nodes()) {
    if (!(node.second_half() ? second_half : first_half).has(node.module())) continue;
    for (const TensorId tensor : node.saves()) {
      const bool gives = node.writes().has(tensor) && reads_elsewhere(layer, node.module(), tensor);
      if (!plan.dropped[LayerGraph::index(tensor)] && !gives)
        inputs[LayerGraph::index(tensor)] = true;
    }
  }
  return size_of_tensors(layer, [&](std::size_t t) { return inputs[t]; });
}

}  // namespace

Recomputation no_recomputation(const LayerGraph& layer) {
  return {.repeated = std::vector<bool>(layer.nodes().size(), false),
          .dropped = std::vector<bool>(layer.tensors().size(), false),
          .cached = std::vector<bool>(layer.tensors().size(), false)};
}

Recomputation recompute_modules(const LayerGraph& layer, ModuleSet modules,
                                ModuleSet keeps_output) {
  Recomputation plan = no_recomputation(layer);
  std::vector<bool> given(layer.tensors().size(), false);  // by a checkpoint within the layer
  for (std::size_t i = 0; i < layer.nodes().size(); ++i) {
    const Node& node = layer.nodes()[i];
    plan.repeated[i] = modules.has(node.module());
    for (const TensorId tensor : node.writes()) {
      if (keeps_output.has(node.module())) given[LayerGraph::index(tensor)] = true;
      // The norm's own sums are small, and stay.
      const bool sums =
          node.module() == Module::Norm && layer[tensor].role == TensorRole::Statistic;
      if (plan.repeated[i])
        plan.dropped[LayerGraph::index(tensor)] = tensor != layer.output() && !sums;
    }
  }
  for (std::size_t i = 0; i < layer.nodes().size(); ++i) {
    if (plan.repeated[i]) continue;
    for (const TensorId tensor : layer.nodes()[i].reads()) {
      if (given[LayerGraph::index(tensor)]) plan.dropped[LayerGraph::index(tensor)] = false;
    }
  }
  return plan;
}

Recomputation recompute_all(const LayerGraph& layer, bool stops_early) {
  Recomputation plan{.repeated = std::vector<bool>(layer.nodes().size(), true),
                     .dropped = std::vector<bool>(layer.tensors().size(), true),
                     .cached = std::vector<bool>(layer.tensors().size(), false),
                     .from_input = true,
                     .holds_output = !stops_early};
  if (stops_early)
    std::fill(plan.repeated.begin() + static_cast<std::ptrdiff_t>(layer.needed_nodes()),
              plan.repeated.end(), false);
  for (const TensorId tensor : {layer.input(), layer.output()}) {
    if (tensor != kNoTensor) plan.dropped[LayerGraph::index(tensor)] = false;
  }
  return plan;
}

Recomputation recompute_by_operator(const LayerGraph& layer, const SavedGemms& saved,
                                    bool stops_early) {
  Recomputation plan = recompute_all(layer, stops_early);
  const std::vector<Node>& nodes = layer.nodes();
  const auto last =
      std::find_if(nodes.rbegin(), nodes.rend(), [](const Node& n) { return n.is_gemm(); });
  int outputs = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_last = last != nodes.rend() && &nodes[i] == &*last;
    const SavedOutputs kept = saved_outputs(layer, nodes[i], saved, is_last, outputs);
    for (const TensorId tensor : kept.tensors) plan.cached[LayerGraph::index(tensor)] = true;
    if (!kept.all) continue;
    plan.repeated[i] = false;
    for (const TensorId tensor : nodes[i].writes()) {
      if (layer[tensor].role == TensorRole::Statistic)
        plan.cached[LayerGraph::index(tensor)] = true;
    }
  }
  for (std::size_t t = 0; t < plan.cached.size(); ++t) {
    if (plan.cached[t]) plan.dropped[t] = false;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].is_reduce_scatter() && plan.cached[LayerGraph::index(nodes[i].writes().front())])
      plan.repeated[i] = false;
  }
  return plan;
}

Recomputation recomputation_of(const LayerGraph& layer, const Recompute& recompute,
                               const Transformer& model, const Framework& framework,
                               LayerKind kind) {
  switch (recompute.kind) {
    case RecomputeKind::None: break;
    case RecomputeKind::Selective:
      return recompute_modules(layer,
                               repeated_modules(recompute.modules, model, kind.has_experts()),
                               {Module::CoreAttention});
    case RecomputeKind::Full:
    case RecomputeKind::EveryN: return recompute_all(layer, stops_early(model, framework));
    case RecomputeKind::Op:
      return recompute_by_operator(layer, recompute.saved, stops_early(model, framework));
  }
  return no_recomputation(layer);
}

OperatorList recomputed_operators(const LayerGraph& layer, const Recompute& recompute,
                                  const Transformer& model, const Framework& framework,
                                  LayerKind kind, DType activation) {
  if (recompute.kind == RecomputeKind::None) return {};
  const std::size_t needed = needed_operators(layer, model, framework);
  if (recompute.kind == RecomputeKind::Op)
    return recomputed_by_operator(
        layer, needed, recomputation_of(layer, recompute, model, framework, kind), activation);
  const bool selective = recompute.kind == RecomputeKind::Selective;
  const ModuleSet modules =
      selective ? executed_modules(recompute.modules, model, kind.has_experts()) : ModuleSet{};
  OperatorList repeated;
  for (std::size_t i = 0; i < needed; ++i) {
    const Operator& op = layer.forward[i];
    if (selective && !modules.has(op.module)) continue;
    // Weights that are cast for the backward pass anyway are not cast again.
    if (framework.casts_weights_in_backward && op.kind == OperatorKind::Cast) continue;
    repeated.push_back(op);
  }
  return repeated;
}

double repeated_share(const LayerGraph& layer, const Recomputation& recomputation,
                      std::size_t node) {
  if (!recomputation.repeated[node]) return 0.0;
  Bytes all, again;
  for (const TensorId tensor : layer.nodes()[node].writes()) {
    if (layer[tensor].role == TensorRole::Statistic) continue;
    all += layer.size(tensor);
    if (!recomputation.cached[LayerGraph::index(tensor)]) again += layer.size(tensor);
  }
  return again / all;
}

ModuleSet repeated_modules(const RecomputedModules& modules, const Transformer& model, bool moe) {
  ModuleSet repeated;
  const auto repeat = [&](bool chosen, std::initializer_list<Module> of) {
    if (chosen) repeated.add(of);
  };
  repeat(modules.core_attention, {Module::CoreAttention});
  repeat(modules.mla_up, {Module::MlaUp});
  repeat(modules.norms, {Module::Norm});
  repeat(modules.mlp && !moe, {Module::MlpUp, Module::Activation});
  repeat(modules.activation && !moe, {Module::Activation});
  repeat(modules.moe && moe, {Module::MoeInput, Module::Router, Module::Dispatch, Module::ExpertUp,
                              Module::ExpertActivation, Module::ExpertDown, Module::SharedUp,
                              Module::SharedActivation});
  repeat(modules.shared_experts && moe, {Module::SharedUp, Module::SharedActivation});
  repeat((modules.moe || modules.shared_experts) && moe && model.moe->shared_expert_gate,
         {Module::SharedDown});
  repeat((modules.activation || modules.expert_activation) && moe, {Module::ExpertActivation});
  repeat(modules.activation && moe, {Module::SharedActivation});
  return repeated;
}

std::vector<bool> saved_tensors(const LayerGraph& layer, const Recomputation& recomputation) {
  std::vector<bool> saved = recomputation.cached;
  for (const Node& node : layer.nodes()) {
    for (const TensorId tensor : node.saves()) {
      if (!recomputation.dropped[LayerGraph::index(tensor)])
        saved[LayerGraph::index(tensor)] = true;
    }
  }
  if (recomputation.from_input) saved[LayerGraph::index(layer.input())] = true;
  return saved;
}

Bytes saved_bytes(const LayerGraph& layer, const Recomputation& recomputation) {
  const std::vector<bool> saved = saved_tensors(layer, recomputation);
  return size_of_tensors(layer, [&](std::size_t t) { return saved[t]; });
}

Bytes saved_bytes(const LayerGraph& layer) { return saved_bytes(layer, no_recomputation(layer)); }

Bytes offloaded_inputs(const LayerGraph& layer, const Recomputation& recomputation,
                       const OffloadedModules& modules) {
  ModuleSet attention_half, mlp_half;
  if (modules.attention_norm) attention_half.add({Module::Norm});
  if (modules.qkv) attention_half.add({Module::Qkv});
  if (modules.core_attention) attention_half.add({Module::CoreAttention});
  if (modules.attention_output) attention_half.add({Module::AttentionOutput});
  if (modules.mlp_norm) mlp_half.add({Module::Norm});
  if (modules.mlp_input) mlp_half.add({Module::MlpUp, Module::ExpertUp});
  if (modules.activation) mlp_half.add({Module::Activation, Module::ExpertActivation});
  return saved_inputs(layer, recomputation, attention_half, mlp_half);
}

}  // namespace llmsim::sim
