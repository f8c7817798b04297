// A gated delta net in the place of attention, on one rank.
//
//   norm, [gather], (t, (2 K + 2 V)/n, h), (t, 2 H_v/n, h), convolution, delta rule, norm, gate,
//     (t, h, V/n), [reduce]
//
// A mixer projects a token to q, k, v and z (MixerInput) and to two gates of each value head
// (MixerGates), convolves the channels of q, k and v, repeats q and k for the heads that share
// them, runs the gated delta rule, normalises each head, gates with z and projects back
// (MixerOutput). Tensor ranks divide heads, each has the tokens of all.  Notation: H value heads
// with states of K x V, chunks of C tokens, e bytes an activation.
//
// Training runs one kernel after the other (chunk_gated_delta_rule of flash-linear-attention, with
// the norm of q and k in it), so that what one gives to the next is written and read.  Bytes for
// each token and value head:
//
//   forward   norms of q and k  4 K e
//             K K^T             K e, 4 C              in fp32
//             its inverse T     4 C, C e
//             T K and T V       2 K e + 2 V e + C e
//             states            2 K e + 2 V e, e K V / C
//             output            2 K e + 2 V e + e K V / C
//             sum               (11 K + 6 V) e + 2 e K V / C + (8 + 2 e) C
//   backward  T K, T V and the states again, the gradients of values within chunks, of states, of
//             q, k and T K, of T, and of the norms
//             sum               (27 K + 15 V) e + 4 e K V / C + 2 e C
//
// Gates and decays, of 4 bytes a head, are left out.  The convolution reads and writes its
// channels, backward reads them and their gradients and writes gradients.  FLOPs are those of
// model/mixers.h, twice in the backward pass; what a kernel reaches of the memory
// bandwidth is MemoryBoundKernel::Scan.
//
// Over context ranks the convolution, the delta rule and the norm have all tokens and a rank's
// heads: columns are put into the order of the ranks, q, k, v, z and both gates go out in one
// all-to-all and the gated output comes back in another (scan.h).
//
// Sources: fla-org/flash-linear-attention fla/ops/gated_delta_rule/chunk.py, fla/ops/common
// chunk_delta_h.py and chunk_o.py (what each kernel loads and stores);
// Megatron-LM megatron/core/ssm/gated_delta_net.py, since 2026 gated_delta_net/common.py
// (a2a_cp_to_hp, a2a_hp_to_cp).
#pragma once

#include "sim/operators/layer_builder.h"
#include "sim/operators/scan.h"

namespace llmsim::sim {

// For each token and value head.  The workspaces are T K, T V, new values and states; backward
// those and the gradients of q, k, v and the states.
ScanBytes scan_bytes(const GatedDeltaNet& net, double element);

// What the delta rule saves for its backward pass, in bytes for each token and value head: q, k,
// v, T and the decay in fp32.  Source: fla/ops/gated_delta_rule/chunk.py, save_for_backward.
double saved_by_delta_rule(const GatedDeltaNet& net, double element);

// The half of a layer between its norm and its residual; `alone`: the layer has no MLP.
// Requires model.gated_delta_net and tensor ranks that divide its key heads.
TensorId add_gated_delta_net_mixer(LayerBuilder& layer, TensorId normed, bool alone);

}  // namespace llmsim::sim
