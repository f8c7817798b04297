// The experts of an MoE layer on one rank: what stands between the norm and the sum over tensor
// ranks in place of the MLP.
//
// Notation: t tokens on this rank, h = hidden_size, E = num_experts, k = top_k, x =
// expert_parallel, f = expert_ffn_size / n over n tensor ranks, F = num_shared_experts *
// shared_expert_ffn_size / n.  A token visits k experts, so R = t k rows of h values are gathered,
// sent and worked on; each rank has E / x experts.
//
//   forward   router (t, E, h) in the activation format, softmax over the experts in fp32, the k
//             largest
//             dispatch: rows by expert (R, h); [counts E, all-to-all R h, rows by expert once more]
//             [shared experts: (t, F or 2 F, h), activation; gate (t, 1, h)]
//             E / x GEMMs of R x / E rows: (f or 2 f, h); activation; (h, f)
//             [rows by rank, all-to-all R h], rows by token: what the combination reads, and the
//             last thing that is needed again [shared (t, h, F)], combination: sum over k of weight
//             times row
//   backward  the gradient of each weight is a GEMM of rows; data and weight gradients of every
//             GEMM; the conjugate moves
//
// An all-to-all of a message of M bytes leaves M (x - 1) / x of them on the wire.  Every expert of
// a rank has an equal share of its rows.  The busiest rank has `imbalance` times the mean
// (expected_imbalance), at most all rows of the x ranks, and the others wait for it; a capacity
// bounds or pads what an expert gets.
// Router and gate see every token on all tensor ranks, whose combinations are partial sums: their
// gradients are partial too, and summed when the step closes.
//
// Where experts work on latent_size values (LatentMoE), a GEMM of all its tokens makes these before
// the dispatch and another makes h of them after the combination, on each tensor rank with its
// whole weight: rows of h above are rows of latent_size then.
// Source: Megatron-LM core/transformer/moe/moe_layer.py, fc1_latent_proj and fc2_latent_proj.
//
// Where a rank routes shards (routes_shards), router, dispatch and combination work on the t/n
// tokens of its shard of the sequence instead, R = t k / n rows are sent, and what arrives is
// gathered over the etp ranks that divide an expert, each f = expert_ffn_size / etp wide; their
// partial results are reduce-scattered before they return.  Only shared experts gather tokens.
//
// An all-gather dispatch has all tokens of the expert ranks on each of them, t h x, instead of
// rows; results are reduce-scattered. Rows may be dispatched in the low-precision format of the
// GEMMs (dispatches_low_precision), results and gradients come back in the activation format.  A
// deduplicating one sends a token once to a rank and a node however many of its experts are there,
// makes rows by expert of what arrives, and is priced by cost/collective.h.
// Source: Megatron-LM core/transformer/moe/token_dispatcher.py, _DeepepManager; HybridEP's
// dispatch_with_permute, which moves tokens in a kernel and rows in another (deepseek-ai/DeepEP
// pull request 420).
//
// Saved for the backward pass, e bytes an activation: rows, inputs of both GEMMs, the rows before
// the combination, the probabilities in fp32, weights, and three 8-byte indices for each row
// (chosen expert, order, token).  Where the weights multiply an expert's activation instead of its
// output (weighted_in_experts), the rows before the combination are not needed, but the activation
// as it was before, unless it is a gate fused with its weight.
// Sources: Shazeer et al. 2017; dropless grouped GEMMs, Gale et al., "MegaBlocks", 2022; order of
// moves, Megatron-LM core/transformer/moe/token_dispatcher.py.
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/layer_builder.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

inline constexpr double kRowIndexBytes = 8.0;  // of a row: its expert, its place, its token

// The experts of this rank with the rows that they work on, and what else there is of a layer.
struct ExpertShape : ExpertRows {
  bool routes_shards = false;
  std::int64_t tokens = 0;      // that this rank routes
  std::int64_t sent = 0;        // rows, one for each expert that one of them visits
  std::int64_t ffn = 0;         // of one expert, per tensor rank
  std::int64_t shared_ffn = 0;  // of all shared experts together, per tensor rank
};

// Whether each tensor rank routes its own shard of the sequence: so does Megatron-LM with sequence
// parallelism, and so it must be where experts are divided otherwise than the rest.
bool routes_shards(const Strategy& strategy, const Framework& framework);

// Rows of the busiest of x ranks relative to the mean, where nothing else is known of a run:
//
//   1 + c m(x) sqrt(x / E)
//
// with c the spread of loads over experts (ExpertBehaviour::load_spread), of which a rank has the
// mean of E / x, and m(x) the expected largest of x normal deviations (base/uncertainty.h).
// Assumes that the loads of experts do not depend on each other.
double expected_imbalance(const Moe& moe, int expert_ranks, double load_spread);

// Requires an MoE model and a valid strategy.
ExpertShape expert_shape(const Transformer& model, const Strategy& strategy,
                         const Framework& framework);

// Adds router, dispatch, experts, shared experts and combination on the output of the layer's norm;
// gives the sum for this rank's tokens, or, where tensor ranks do not route shards, this
// rank's summand.
TensorId add_experts(LayerBuilder& layer, TensorId normed);

}  // namespace llmsim::sim
