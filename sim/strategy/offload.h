// What lives on the host instead of the device.
//
// Activations go there in one of three ways:
//
//   checkpoints   with recomputation of whole blocks: the inputs they are made again from
//   whole blocks  without it: all that a block keeps; with `blocks` = k only the first k of each stage
//   modules       the inputs of some modules of every block, named as in Megatron's fine-grained offloading: attn_norm,
//                 qkv_linear, core_attn (queries, keys and values), attn_proj, mlp_norm, expert_fc1 (the input of the MLP or the
//                 experts), moe_act (the input of the activation function)
//
// They leave after the forward pass of their block and are back before its backward pass; two blocks at a time stay.
// Sources: Megatron-LM core/pipeline_parallel/fine_grained_activation_offload.py and its user guide; TransformerEngine
// cpu_offload.py (get_cpu_offload_context: num_layers).
#pragma once

#include <compare>
#include <optional>
#include <string>

namespace llmsim::sim {

struct OffloadedModules {
  bool attention_norm = false;
  bool qkv = false;
  bool core_attention = false;
  bool attention_output = false;
  bool mlp_norm = false;
  bool mlp_input = false;
  bool activation = false;
  auto operator<=>(const OffloadedModules&) const = default;

  bool any() const { return *this != OffloadedModules{}; }
};

// Of all the modules.
inline constexpr OffloadedModules kAllOffloadedModules{true, true, true, true, true, true, true};

struct Offload {
  bool optimizer = false;    // states and update on the host (CPU Adam)
  bool parameters = false;   // weights fetched over the host link
  bool activations = false;  // kept in host memory: checkpoints, whole blocks or `modules`
  OffloadedModules modules = {};
  int blocks = 0;  // of each stage that offload their activations; 0: all
  auto operator<=>(const Offload&) const = default;
};

// Names joined by `separator`: "core_attn+moe_act"; empty for none.
std::string text_of(const OffloadedModules& modules, const char* separator = "+");
// The inverse for names joined by "+"; none where one is unknown.
std::optional<OffloadedModules> offloaded_modules_from(const std::string& names);

}  // namespace llmsim::sim
