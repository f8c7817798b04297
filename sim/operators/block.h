// One transformer block on one rank, for one micro-batch: norms, residual sums, and in between the
// halves that have files of their own.
//
//   first half    norm, attention (attention.h), or in its place a Mamba-2 mixer (mamba2.h), a
//                 gated delta net (gated_delta_net.h) or a Mamba-1 mixer (mamba1.h), [reduce],
//                 residual sum
//   second half   norm, MLP or experts (experts.h), [reduce], residual
//   MLP           [gather], (t, f/n or 2f/n, h), activation, (t, h, f/n); f = ffn_size, notation of
//                 layer_builder.h; backward for each GEMM a data gradient, then a weight gradient
//
// Layers of a hybrid are one of the halves alone.  A parallel block (PaLM) reads one norm in both
// halves, gathers and reduces once; the framework may join qkv and the MLP's input to one GEMM.
// Norms may follow each half.  What linear layers, norms and sums over tensor ranks do
// stands in layer_builder.h.
//
// GPT in 16 bits with dropout and fused kernels saves 34 t h + 5 a s t bytes at n = 1.
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
// Models", 2022.
#pragma once

#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"
#include "sim/operators/layer_graph.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// A block as it runs under `recompute` (EveryN counts as Full: the caller mixes the two kinds of
// block).
// `kind`: which of the model's layers; one with experts needs model.moe.  `framework`: as it runs
// under the strategy (effective_framework).  Requires a valid strategy.
LayerGraph lower_block(const Transformer& model, const Strategy& strategy,
                       const Framework& framework, RecomputeKind recompute,
                       LayerKind kind = LayerKind::Dense);

}  // namespace llmsim::sim
