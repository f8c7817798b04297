// The indexer of attention to chosen keys (sparse_attention), which finds the keys that each query
// sees: with A heads of D values, the notation of layer_builder.h, and s keys before a query
//
//   forward   [gather of what it reads], queries (t, A D, r or h), keys (t, D, h), norms, weights
//             of heads (t, A, h), where it has some; scores 2 A D s a token, the best top_k of them
//   backward  gradients of its weights, and of its scores twice the forward
//
// It learns from what attention gives its keys, not through the stream: what it reads gets no
// gradient.  Every tensor rank does all of it; context ranks gather its keys.
//
// Saved: its inputs (of all tensor ranks), queries, keys and weights; a 32-bit number for each
// chosen key, or block of keys.  Assumed: scores are written once, in 32 bits, and read once to
// choose.  Sources: deepseek-ai/DeepSeek-V3.2-Exp inference/model.py; Megatron-LM
// megatron/core/transformer/experimental_attention_variant/dsa.py, DSAIndexer, and msa.py.
#pragma once

#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// The chosen keys; none in a layer that follows the choice of another.  `query_input`: what its
// queries are projected from, which `query_gather` gathers; or `normed` itself.
TensorId add_indexer(LayerBuilder& layer, TensorId normed, TensorId query_input,
                     const SharedInput& query_gather);

}  // namespace llmsim::sim
