#include "sim/operators/block_recompute.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace llmsim::sim {
namespace {

// Unless a norm or a dropout mask after the last GEMM is needed again.
bool stops_early(const Transformer& model, const Framework& framework) {
  return framework.recompute_stops_early && framework.dropout == 0.0 && model.norms_per_layer < 4;
}

// Up to the first operator whose results nothing needs again; the casts before a GEMM make what it
// saves.
OperatorList needed_operators(const OperatorList& forward, const Transformer& model,
                              const Framework& framework, LayerKind kind) {
  if (!stops_early(model, framework)) return forward;
  ModuleSet last{Module::MlpDown, Module::Combine};
  if (kind.mlp == LayerMlp::None) last.add({Module::AttentionOutput, Module::MixerOutput});
  if (model.moe && !model.moe->shared_expert_gate) last.add({Module::SharedDown});
  const auto end = std::find_if(forward.begin(), forward.end(), [&](const Operator& op) {
    return last.has(op.module) && op.kind != OperatorKind::Cast;
  });
  return {forward.begin(), end};
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

OperatorList operators_of(const OperatorList& operators, ModuleSet modules) {
  OperatorList chosen;
  std::copy_if(operators.begin(), operators.end(), std::back_inserter(chosen),
               [&](const Operator& op) { return modules.has(op.module); });
  return chosen;
}

// Weights that are cast for the backward pass anyway are not cast again for the recomputation.
OperatorList without_casts(OperatorList operators, const Framework& framework) {
  if (framework.casts_weights_in_backward)
    std::erase_if(operators, [](const Operator& op) { return op.kind == OperatorKind::Cast; });
  return operators;
}

// The columns of a GEMM that a policy does not keep.
Operator part_of(const Operator& whole, double share, DType output) {
  Operator part =
      gemm(whole.label, whole.batch, whole.m, std::llround(share * static_cast<double>(whole.n)),
           whole.k, whole.dtype, output);
  part.module = whole.module;
  return part;
}

// Backward passes have collectives of their own for what they need.
OperatorList recomputed_by_operator(const OperatorList& needed, const Dataflow& block,
                                    const Dataflow::Recomputation& plan, DType activation) {
  OperatorList repeated;
  std::map<Module, int> gemms;
  for (const Operator& op : needed) {
    const bool core = op.module == Module::CoreAttention;
    if (core && block.repeats(plan, Module::CoreAttention)) repeated.push_back(op);
    if (core || op.kind == OperatorKind::Collective) continue;
    if (op.kind != OperatorKind::Gemm) {
      repeated.push_back(op);
      continue;
    }
    const double share = block.repeated_share(plan, op.module, gemms[op.module]++);
    if (share > 0.0) repeated.push_back(part_of(op, share, activation));
  }
  return repeated;
}

}  // namespace

OperatorList recomputed_operators(const OperatorList& forward, const Transformer& model,
                                  const Strategy& strategy, const Framework& framework,
                                  RecomputeKind recompute, LayerKind kind) {
  if (recompute == RecomputeKind::None) return {};
  const OperatorList needed = needed_operators(forward, model, framework, kind);
  if (recompute == RecomputeKind::Op) {
    const Dataflow block = block_dataflow(model, strategy, framework, kind);
    return recomputed_by_operator(
        needed, block, recomputation_of(block, strategy.recompute, model, framework, kind),
        activation_dtype(strategy.precision));
  }
  if (recompute != RecomputeKind::Selective) return without_casts(needed, framework);
  const ModuleSet modules = executed_modules(strategy.recompute.modules, model, kind.has_experts());
  return without_casts(operators_of(needed, modules), framework);
}

Dataflow::Recomputation recomputation_of(const Dataflow& block, const Recompute& recompute,
                                         const Transformer& model, const Framework& framework,
                                         LayerKind kind) {
  switch (recompute.kind) {
    case RecomputeKind::None: break;
    case RecomputeKind::Selective:
      return block.recompute(repeated_modules(recompute.modules, model, kind.has_experts()),
                             {Module::CoreAttention});
    case RecomputeKind::Full:
    case RecomputeKind::EveryN: return block.recompute_all(stops_early(model, framework));
    case RecomputeKind::Op:
      return block.recompute_by_operator(recompute.saved, stops_early(model, framework));
  }
  return block.keep_all();
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

Bytes offloaded_inputs(const Dataflow& block, const Dataflow::Recomputation& recomputation,
                       const OffloadedModules& modules) {
  ModuleSet attention_half, mlp_half;
  if (modules.attention_norm) attention_half.add({Module::Norm});
  if (modules.qkv) attention_half.add({Module::Qkv});
  if (modules.core_attention) attention_half.add({Module::CoreAttention});
  if (modules.attention_output) attention_half.add({Module::AttentionOutput});
  if (modules.mlp_norm) mlp_half.add({Module::Norm});
  if (modules.mlp_input) mlp_half.add({Module::MlpUp, Module::ExpertUp});
  if (modules.activation) mlp_half.add({Module::Activation, Module::ExpertActivation});
  return block.saved_inputs(recomputation, attention_half, mlp_half);
}

}  // namespace llmsim::sim
