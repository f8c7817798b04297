// Lightning attention in the place of attention, on one rank.
//
//   norm, [gather], (t, 4 H d/n, h), silu, attention, norm, gate, (t, h, H d/n), [reduce]
//
// A mixer projects a token to q, k, v and a gate (MixerInput), takes silu of q, k and v, runs
// linear attention whose states decay by a constant of each head, normalises the values of all
// heads together, gates them with a sigmoid and projects back (MixerOutput).  Tensor ranks divide
// heads; their sums of squares for the norm, 4 bytes a token, are left out.  Notation: H heads of
// d values, chunks of C tokens, e bytes an activation.
//
// Training runs one kernel after the other (chunk_lightning_attn of flash-linear-attention, which
// is chunk_simple_gla with constant decays).  Bytes for each token and head:
//
//   forward   states of chunks  2 d e, e d^2 / C
//             output            4 d e, e d^2 / C
//             sum               6 d e + 2 e d^2 / C
//   backward  states in fp32    2 d e, 4 d^2 / C
//             their gradients   2 d e, 4 d^2 / C
//             of q and k        6 d e, 8 d^2 / C
//             of v              4 d e, 4 d^2 / C
//             sum               14 d e + 20 d^2 / C
//
// FLOPs are those of model/mixers.h, twice in the backward pass.
//
// Sources: huggingface/transformers src/transformers/models/minimax/modular_minimax.py
// (MiniMaxLightningAttention); fla-org/flash-linear-attention fla/ops/simple_gla/chunk.py,
// fla/ops/common/chunk_h.py and chunk_o.py (what each kernel loads and stores).
#pragma once

#include "sim/operators/layer_builder.h"
#include "sim/operators/scan.h"

namespace llmsim::sim {

// For each token and head.  The workspaces are the states; backward those and their gradients.
ScanBytes scan_bytes(const LightningAttention& attention, double element);

// The half of a layer between its norm and its residual; `alone`: the layer has no MLP.
// Requires model.lightning_attention and tensor ranks that divide its heads.
TensorId add_lightning_attention_mixer(LayerBuilder& layer, TensorId normed, bool alone);

}  // namespace llmsim::sim
