// Attention between the norm of a half of a layer and the sum over tensor ranks: the projections to
// queries, keys and values, the core (attention_core.h), the output projection.
//
// Notation: layer_builder.h; a = num_heads, d = head_dim, g = num_kv_heads.
//
//   forward   [gather], (t, (a+2g)d/n, h), [norms of q and k], rotary, core, [gate], (t, h, ad/n)
//   backward  the same from its end to its beginning: for each GEMM a data gradient, then a weight
//             gradient; the core twice its forward FLOPs; the conjugate collectives, those of a
//             column-parallel GEMM around its data gradient (SharedInput in layer_graph.h)
//
// MLA (multi-head latent attention, DeepSeek-V2), with ranks r and c of the bottlenecks of queries
// and of keys and values, heads of e = qk_nope + qk_rope for queries and keys and v for values:
//
//   (t, r, h), norm; (t, c + qk_rope, h), norm; [gather]; (t, a e/n, r), (t, a (qk_nope + v)/n, c),
//     rotary, keys assembled, core, (t, h, a v/n)
//
// Every tensor rank has both matrices that go down, and the whole of what they give: with
// sequence_parallel they work on t/n tokens, and it is the narrow latents that are gathered.
// Queries without a bottleneck are one column-parallel GEMM.
#pragma once

#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// Gives this rank's summand of the sum over tensor ranks.  `alone`: the layer has no MLP, so that
// nothing after the output projection is needed again.
TensorId add_attention(LayerBuilder& layer, TensorId normed, bool alone);

// One GEMM of qkv and the MLP's input, where both halves read the same norm and the framework joins
// their weights.
bool fuses_inputs(const Transformer& model, const Framework& framework);

}  // namespace llmsim::sim
