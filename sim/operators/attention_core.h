// The core of attention, between the projections, on one rank: scores, softmax, weighted sum, and
// what context parallelism sends.
//
// MLA works on keys and values of all heads, whose sizes e of queries and keys and v of values
// differ: 2 (e + v) in place of 4 d.
//
// Attention to chosen keys (sparse_attention) works on the latents of MLA, in which keys and values
// are one, with q of kv_lora_rank + qk_rope_head_dim values: 2 (e + v) with these sizes, and top_k
// keys read for each query.
//
// Notation: s = seq_len, c = context_parallel, m = s/c tokens of a sequence on one rank, w =
// sliding window.  A rank's share of a causal square of s keys is 4 m s/2 d FLOP for each head:
// with the balanced (zigzag) order every rank has the same, in plain order the last rank has (2 -
// 1/c) of it and all wait for it.
//
// The tokens of an encoder see the whole square: every rank has the same work in any order, and no
// chunk has a mask.
//
//   ring         ring attention: c steps; in each the rank sends its K and V on while it computes
//                with those that it has: one causal chunk (m, m), c - 1 chunks (m, m/2) without a
//                mask (plain order: (m, m)), partial results merged in fp32.  Backward sends K, V
//                and their gradients: twice the bytes, and one last hop that nothing hides
//   all-gather   K and V of the whole sequence are gathered, then one kernel (m, s); backward
//                gathers again and reduce-scatters the gradients of K and V
//   all-to-all   q, k, v change from all heads of m tokens to a/c heads of s tokens, and the output
//                back; the same backward
//   all-to-all+ring  c = i o: q, k, v change over i neighbours from all heads of m tokens to a/i
//                heads of i m tokens, with which rings of o ranks do as above, and the output back
//                (TransformerEngine's "a2a+p2p")
//
// Of a sequence that is packed with documents of D tokens, whose masks are blocks on the diagonal,
// a rank has D/s of the scores in each of these kernels, over so many times fewer keys: kernels of
// variable lengths skip the rest, and context ranks share every document.  The unfused core masks
// the whole square.  Source: FlashAttention's varlen interface, TransformerEngine's "thd" layout.
//
// Saved for the backward pass: q, k, v, the output and a log-sum-exp for each row (flash); or the
// probabilities, with dropout their masked copy and the mask (unfused).
//
// Windowed layers and those of chosen keys need few keys and no ring: they gather.  Sources: ring,
// Liu et al. 2023 and TransformerEngine's "p2p"; all-gather, Llama 3 paper section 3.3.2;
// all-to-all, DeepSpeed-Ulysses (arXiv 2309.14509);
// all-to-all+ring, TransformerEngine pytorch/attention/dot_product_attention/context_parallel.py
// @d0067d0da, AttnFuncWithCPAndKVP2P, and USP (arXiv 2405.07719).
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/layer_builder.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Queries that a blockwise attention kernel handles at once: the scores of one block are there
// at a time.
inline constexpr int kAttentionBlock = 128;

// Queries, keys and values of all heads on this rank; values that are part of the keys are none.
struct AttentionInputs {
  TensorId q, k, v;
  TensorId gate = kNoTensor;    // of the output
  TensorId choice = kNoTensor;  // the keys that each query sees
};

// Gives the output of all heads.  Requires a valid strategy; model.sliding_window is that
// of the layer.
TensorId add_attention_core(LayerBuilder& layer, const AttentionInputs& heads);

// Whether a layer with this window sends its keys as the strategy says, or gathers them because a
// ring would pass most in vain (TransformerEngine has no windows in one, nor in rings of groups).
ContextScheme context_scheme_of(const Transformer& model, const Strategy& strategy);

}  // namespace llmsim::sim
