// Savings of activation memory: what the backward pass recomputes instead of reading what the
// forward pass saved, and what lives on the host instead of the device.
//
// Recompute policies (activation checkpointing):
//
//   none        nothing
//   selective   modules of each block: the core of attention (scores, softmax, dropout, weighted
//               sum) unless others are named.  Megatron's recompute_modules: core_attn, mlp (all of
//               a dense one, collectives included; MoE models are left alone), moe (a whole MoE
//               model: router, dispatch, experts, shared experts), shared_experts (from their
//               input), layernorm, mla_up_proj (queries, keys and values from their latents),
//               moe_act (the activation function of routed experts); activation is every activation
//               function, of MLPs and shared experts too.  Only what is saved inside the module is
//               dropped.
//   full        every block from its input; with every_n = n a checkpoint is stored every n blocks;
//               with blocks = k only the first k blocks of each model chunk (Megatron's
//               recompute_method "block")
//   every_n     `share` of every `every_n` blocks as in full, the others not at all
//   op          operator by operator.  Cheap ones are recomputed; saved are the outputs of
//                 every second GEMM  torchtitan: GEMMs counted from the block's start as q, k, v,
//                                    out, gate, up, down; the outputs of attention and of
//                                    reduce-scatters too; 8-bit GEMMs where the framework's policy
//                                    counts them, else none of these
//                 all GEMMs          MaxText's "minimal"; attention is recomputed
//                 what is named      MaxText's other policies ("save_qkv_proj": qkv): qkv (queries,
//                                    keys, values and the latents of MLA), core_attn, attn_proj,
//                                    mlp_up, mlp_down (of MLPs, experts, shared experts)
//
// Sources: NVIDIA Megatron-LM transformer_config.py; pytorch/torchtitan activation_checkpoint.py
// (_save_list, every second mm); AI-Hypercomputer/maxtext decoders.py (remat_policy).
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "sim/base/field.h"

namespace llmsim::sim {

enum class RecomputeKind { None, Selective, Full, EveryN, Op };

struct RecomputedModules {
  bool core_attention = true;
  bool mlp = false;  // of dense blocks
  bool moe = false;  // what stands in its place in blocks with experts
  bool norms = false;
  bool activation = false;
  bool expert_activation = false;  // of routed experts alone
  bool shared_experts = false;
  bool mla_up = false;
  auto operator<=>(const RecomputedModules&) const = default;

  // Whether all that follows the second norm of a block is recomputed.
  bool second_half(bool of_moe) const { return of_moe ? moe : mlp; }
};

// All the modules.
inline constexpr RecomputedModules kAllRecomputedModules{true, true, true, true,
                                                         true, true, true, true};

// Whose outputs recomputation operator by operator saves: of every second GEMM, or those named.
struct SavedGemms {
  bool every_second = true;  // alone
  bool qkv = false;
  bool core_attention = false;
  bool attention_output = false;
  bool mlp_up = false;
  bool mlp_down = false;
  auto operator<=>(const SavedGemms&) const = default;
};

// "all"; the router's too.
inline constexpr SavedGemms kAllSavedGemms{false, true, false, true, true, true};

struct Recompute {
  RecomputeKind kind = RecomputeKind::None;
  int every_n = 1;
  int share = 1;   // EveryN: blocks of every `every_n` that are recomputed
  int blocks = 0;  // Full: of each model chunk; 0: all
  RecomputedModules modules = {};
  SavedGemms saved = {};
  auto operator<=>(const Recompute&) const = default;

  // Of a chunk of `chunk` blocks, the number whose forward pass is repeated in whole or in part.
  double blocks_of(int chunk) const;
  // Whether it is all of a block that is recomputed, from its input.
  bool whole() const { return kind == RecomputeKind::Full || kind == RecomputeKind::EveryN; }
  // Whether that of block `block` (from 0) of a chunk is.
  bool repeats(int block) const;
  // Whether some blocks of a chunk are recomputed and others not.
  bool mixes() const { return kind == RecomputeKind::EveryN || blocks > 0; }
  // What of it one recomputed block sees: not how many of them there are.
  Recompute of_block() const;
};

// As people type it: none, selective, selective=core_attn+mlp, full, full/2 (a checkpoint every two
// blocks), full=5 (the first five blocks of each chunk), every-n=4, every-n=2/3 (two of every three
// blocks), op, op=all, op=qkv+core_attn.
std::string text_of(const Recompute& recompute);
// The inverse; none where the text is nothing of that.
std::optional<Recompute> recompute_from(const std::string& text);

// Names of modules: "core_attn+mlp".
std::string text_of(const RecomputedModules& modules);
// The inverse; none where one is unknown.
std::optional<RecomputedModules> recomputed_modules_from(const std::string& names);

// "every-second", "all", "qkv+core_attn".
std::string text_of(const SavedGemms& saved);
std::optional<SavedGemms> saved_gemms_from(const std::string& names);

NameTable<RecomputeKind> name_table(RecomputeKind);  // "every_n"

// What lives on the host instead of the device.
//
// Activations go there in one of three ways:
//
//   checkpoints   with recomputation of whole blocks: the inputs they are recomputed from
//   whole blocks  without it: all that a block saves; with `blocks` = k only the first k of each
//                 stage
//   modules       the inputs of some modules of every block, named as in Megatron's fine-grained
//                 offloading: attn_norm, qkv_linear, core_attn (queries, keys and values),
//                 attn_proj, mlp_norm, expert_fc1 (the input of the MLP or the experts), moe_act
//                 (the input of the activation function)
//
// They leave after the forward pass of their block and are back before its backward pass; two
// blocks at a time stay.  Sources: Megatron-LM
// core/pipeline_parallel/fine_grained_activation_offload.py and its user guide; TransformerEngine
// cpu_offload.py (get_cpu_offload_context: num_layers).

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
  bool activations = false;  // in host memory: checkpoints, whole blocks or `modules`
  OffloadedModules modules = {};
  int blocks = 0;  // of each stage that offload their activations; 0: all
  auto operator<=>(const Offload&) const = default;
};

// "core_attn+moe_act"; empty for none.
std::string text_of(const OffloadedModules& modules);
// The inverse; none where one is unknown.
std::optional<OffloadedModules> offloaded_modules_from(const std::string& names);

}  // namespace llmsim::sim
