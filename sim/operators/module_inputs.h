// The inputs that the modules of a block keep for their backward passes, by the names of strategy/recompute.h.
#pragma once

#include "sim/base/quantity.h"
#include "sim/strategy/recompute.h"

namespace llmsim::sim {

struct ModuleInputs {
  Bytes attention_norm{};    // the block's input
  Bytes qkv{};               // the norm's output
  Bytes core_attention{};    // queries, keys and values
  Bytes core_inner{};        // what attention keeps beside them: scores where it is not fused, else their sums
  Bytes attention_output{};  // of the core, before the projection
  Bytes mlp_norm{};
  Bytes mlp_input{};   // the norm's output; in an MoE model the rows of the experts
  Bytes activation{};  // the output of the GEMM before it, gate included
};

// Bytes of the inputs of `modules` that are kept under a recomputation, and so can go to the host; core_attention goes with
// core_inner.  A core that is made again keeps nothing within, recomputed norms keep no
// output, a recomputed MLP or MoE layer nothing within, latents that are projected up again no queries, keys and values;
// recomputed blocks keep their input alone.  `kind`: of this block; `MoE model`: it has experts, whose rows are within.
Bytes offloadable_bytes(const ModuleInputs& inputs, const OffloadedModules& modules, const Recompute& recompute,
                        RecomputeKind kind, bool moe);

}  // namespace llmsim::sim
