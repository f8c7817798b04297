// FLOPs that one token of a training sequence needs, by the shape of the model alone.
//
// A multiply-add is 2 FLOP.  Counted are matrix multiplications and the two GEMMs of attention; norms, activations, softmax,
// biases and the embedding lookup (no GEMM) are not.  The backward pass does twice the forward's work, so training needs 3 *
// forward.
#pragma once

#include <cstdint>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

// Weights that multiply a token's activations: projections, MLP, the top_k visited and the shared experts, router, and the head
// (tied or not, once more for each multi-token-prediction layer, and with the layers of an encoder's head, which work on some
// tokens only).  Neither embedding lookup, norms nor biases.
std::int64_t matmul_parameters(const Transformer& model);

// Keys that a query of layer `layer` meets, averaged over a sequence of S = seq_len tokens; w is the layer's window, at most S:
//
//   causal: w - w^2 / (2 S)     (S / 2 without a window)      otherwise, and of an encoder: w
//
// The causal area is the continuous one, as every published convention counts it: the diagonal is split in half.
double attended_keys(const Transformer& model, int layer, bool causal);

// Forward FLOPs of the two GEMMs of attention in one layer, for one token, with H heads, d_q = query_head_dim and d_v the
// width of a value head:
//
//   2 H (d_q + d_v) attended_keys
Flops attention_flops_per_token(const Transformer& model, int layer, bool causal);

// FLOPs of the head and of what stands before it, averaged over the tokens of a sequence: of an encoder only predicted_share
// pass it, and one token passes its classifier of sentences.
Flops head_flops_per_token(const Transformer& model);

// 2 matmul_parameters + the attention of all layers, multi-token-prediction layers included; of an encoder the head's share.
// Without windows, experts and MLA three times this is the usual 6 (N - embedding) + 12 L H d S, half the second
// term if causal.
Flops forward_flops_per_token(const Transformer& model, bool causal);

// What training needs for one token: a forward pass and two backward, of causal attention half.  Where
// the weights are frozen and adapters of `adapter_parameters` (of the whole model) are trained instead,
// no gradients of frozen weights:
//
//   3 forward      with adapters:  3 forward - 2 matmul_parameters (of an encoder the head's share)
//                                  + 6 adapter_parameters
Flops training_flops_per_token(const Transformer& model, double adapter_parameters = 0.0);

}  // namespace llmsim::sim
