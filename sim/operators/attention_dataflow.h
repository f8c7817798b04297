// The tensors of the core of attention: scores, softmax and weighted sum (layer_dataflow.h); its
// operators are attention_core.h's.
//
// A fused kernel saves q, k, v, its output and a log-sum-exp for each row; one that is written out
// saves the probabilities, with dropout their masked copy and the mask.  Kernels that work on
// blocks of queries have the scores of one block at a time.
#pragma once

#include "sim/operators/layer_dataflow.h"

namespace llmsim::sim {

// Queries that a blockwise attention kernel handles at once.
inline constexpr int kAttentionBlock = 128;

// Queries, keys and values of all heads on this rank.
struct AttentionInputs {
  Dataflow::Tensor q, k, v;
};

// Adds the core's steps; gives its output.
Dataflow::Tensor add_core_attention(LayerDataflow& layer, const AttentionInputs& heads);

}  // namespace llmsim::sim
