// A Mamba-2 mixer in the place of attention, on one rank.
//
//   norm, [gather], (t, (2 d_i + 2 G N + H)/n, h), convolution, scan, norm, (t, h, d_i/n), [reduce]
//
// A mixer projects a token to z, x, B, C and dt (MixerInput), convolves the channels of x, B and C
// over conv_kernel tokens, scans, gates with z, normalises and projects back (MixerOutput).  Tensor
// ranks divide heads and groups, each has the tokens of all.  Notation: t tokens of the rank, on
// which H heads of P values, states of N, G groups, chunks of Q; g = G / H; e bytes an activation.
//
// Training runs one kernel after the other (mamba_split_conv1d_scan_combined of mamba_ssm), so that
// what one gives to the next is written and read.  Bytes for each token and head:
//
//   forward   chunk states     P e + N e g, 4 P N / Q          x, B -> states in fp32
//             state passing    4 P N / Q, e P N / Q
//             C B^T            2 N e g, 4 Q g                  in fp32
//             chunk scan       4 Q g + P e + N e g + e P N / Q + P e (z), 2 P e (y, before and
//                              after the gate)
//             sum              5 P e + 4 N e g + (8 + 2 e) P N / Q + 8 Q g
//   backward  chunk states, passing (fp32) and C B^T again; the gradients of z, of states and of
//             their passing, of x, B, C, C B^T, and of the decay, a kernel each
//             sum              17 P e + (11 e + 16) N g + (24 + 5 e) P N / Q + 24 Q g
//
// dt and its sums over a chunk, of 4 bytes a head, are left out.  The convolution reads and writes
// its channels; its backward pass runs after it has run again.  FLOPs are those of model/mixers.h,
// twice in the backward pass; what a kernel reaches of the memory
// bandwidth is MemoryBoundKernel::Scan.
//
// Several sequences are copied into their own order before the convolution and back after the gate:
// Megatron-LM's activations have the tokens first.
//
// Over context ranks the scan has all tokens and a rank's heads: z, x, B, C and dt are exchanged
// before the convolution and y after the gate, an all-to-all each (scan.h); more ranks than groups
// have copies of B and C.
//
// Sources: state-spaces/mamba mamba_ssm/ops/triton/ssd_combined.py, ssd_chunk_state.py,
// ssd_chunk_scan.py, ssd_state_passing.py, ssd_bmm.py (what each kernel loads and stores);
// Megatron-LM megatron/core/ssm/mamba_mixer.py, _ssm_training.
//
// Saved for the backward pass: convolution, scan and gate are one function of autograd, which saves
// what it reads and y before the gate, and makes all else again
// (ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn).
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/layer_builder.h"
#include "sim/operators/scan.h"

namespace llmsim::sim {

// `element`: bytes of an activation.  The workspaces are the states of chunks in fp32 and in the
// activation format and C B^T; backward those, the gradients of both, and both as GEMMs read them.
ScanBytes scan_bytes(const Mamba& mamba, double element);

// The half of a layer between its norm and its residual; `alone`: the layer has no MLP.
// Requires model.mamba and tensor ranks that divide its groups.
TensorId add_mamba2_mixer(LayerBuilder& layer, TensorId normed, bool alone);

}  // namespace llmsim::sim
