// One transformer block as operators of one rank, for one micro-batch.
//
// Notation: t = micro_batch * seq_len / context_parallel tokens, h = hidden_size, a = num_heads, d
// = head_dim, g = num_kv_heads, f = ffn_size, n = tensor_parallel.  Column-parallel GEMMs (qkv, up)
// divide their output by n, row-parallel ones (projection, down) their input.
//
//   forward   norm, [gather], (t, (a+2g)d/n, h), rotary, attention, (t, h, ad/n), [reduce],
//             residual,
//             norm, [gather], (t, f/n or 2f/n, h), activation, (t, h, f/n), [reduce], residual
//   backward  the same from its end to its beginning: for each GEMM a data gradient, then a weight
//             gradient; attention twice its forward FLOPs; the conjugate collectives, those of a
//             column-parallel GEMM around its data gradient (SharedInput in linear.h)
//
// MLA (multi-head latent attention, DeepSeek-V2), with ranks r and c of the bottlenecks of queries
// and of keys and values, heads of e = qk_nope + qk_rope for queries and keys and v for values:
//
//   (t, r, h), norm; (t, c + qk_rope, h), norm; [gather]; (t, a e/n, r), (t, a (qk_nope + v)/n, c),
//     rotary, keys assembled, attention, (t, h, a v/n)
//
// Every tensor rank has both matrices that go down, and the whole of what they give: with
// sequence_parallel they work on t/n tokens, and it is the narrow latents that are gathered.
// Queries without a bottleneck are one column-parallel GEMM.
//
// Layers of a hybrid are one of the halves alone, or have a Mamba-2 mixer in the place of
// attention:
//
//   norm, [gather], (t, (2 d_i + 2 G N + H)/n, h), convolution, scan, norm, (t, h, d_i/n), [reduce],
//     residual                                                                             scans.h
//
// or a gated delta net:
//
//   norm, [gather], (t, (2 K + 2 V)/n, h), (t, 2 H_v/n, h), convolution, delta rule, norm, gate,
//     (t, h, V/n), [reduce], residual                                                    scans.h
//
// or a Mamba-1 mixer:
//
//   norm, [gather], (t, 2 d_i/n, h), convolution, (t, r_t + 2 N, d_i/n), [sum], norms,
//     (t, d_i/n, r_t), scan, (t, h, d_i/n), [reduce], residual                          scans.h
//
// In an MoE model the experts take the place of the MLP: experts.h.
//
// A parallel block (PaLM) reads one norm in both halves, gathers and reduces once; the framework
// may join qkv and the MLP's input to one GEMM.  Queries and keys may be normalised, norms may
// follow each half.
//
// With sequence_parallel the gathers are all-gathers and the reductions reduce-scatters over n, and
// norms and residuals work on t/n tokens; without, the reductions are all-reduces.  8- and 4-bit
// recipes may cast what is gathered before it travels (inputs, output gradients):
// low_precision_bytes a value; sums travel in 16 bits.
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// 2022; what a block saves for the backward pass stands in dataflow.h.
#pragma once

#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// A block as it runs under `recompute` (EveryN counts as Full: the caller mixes the two kinds of
// block).
// `kind`: which of the model's layers; one with experts needs model.moe.  `attention`: its half of
// a block with attention, where it is known.  Requires a valid strategy.
LayerOperators lower_block(const Transformer& model, const Strategy& strategy,
                           const Framework& framework, RecomputeKind recompute,
                           LayerKind kind = LayerKind::Dense,
                           const LayerOperators* attention = nullptr);

// Forward and backward pass of that half of a layer, which do not depend on where experts are and
// how tokens reach them.
LayerOperators lower_attention_half(const Transformer& model, const Strategy& strategy,
                                    const Framework& framework, LayerKind kind);

}  // namespace llmsim::sim
