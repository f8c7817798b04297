#include "sim/operators/module_inputs.h"

namespace llmsim::sim {
namespace {

ModuleInputs kept_inputs(ModuleInputs inputs, const RecomputedModules& again, bool moe) {
  if (again.core_attention) inputs.core_inner = Bytes(0.0);
  if (again.mla_up) inputs.core_attention = Bytes(0.0);
  if (again.norms) inputs.qkv = Bytes(0.0);
  if (moe ? again.moe : again.norms) inputs.mlp_input = Bytes(0.0);
  if (again.second_half(moe)) inputs.activation = Bytes(0.0);
  return inputs;
}

}  // namespace

Bytes offloadable_bytes(const ModuleInputs& inputs, const OffloadedModules& modules, const Recompute& recompute,
                        RecomputeKind kind, bool moe) {
  const auto if_chosen = [](bool chosen, Bytes size) { return chosen ? size : Bytes(0.0); };
  const Bytes block_input = if_chosen(modules.attention_norm, inputs.attention_norm);
  if (kind != RecomputeKind::None && kind != RecomputeKind::Selective) return block_input;
  const bool selective = kind == RecomputeKind::Selective;
  const ModuleInputs kept = selective ? kept_inputs(inputs, recompute.modules, moe) : inputs;
  return block_input + if_chosen(modules.qkv, kept.qkv) +
         if_chosen(modules.core_attention, kept.core_attention + kept.core_inner) +
         if_chosen(modules.attention_output, kept.attention_output) + if_chosen(modules.mlp_norm, kept.mlp_norm) +
         if_chosen(modules.mlp_input, kept.mlp_input) + if_chosen(modules.activation, kept.activation);
}

}  // namespace llmsim::sim
