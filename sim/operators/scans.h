// The scans that mix tokens in the place of attention, each with the convolution before it, as
// operators of one rank: Mamba-2, the delta rule of a gated delta net, and Mamba-1.
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Of a scan on one rank, for each token and head (of Mamba-1: channel): bytes that its kernels
// move, and that it makes on the way and has at once, at most.
struct ScanBytes {
  double forward = 0.0, backward = 0.0;
  double forward_workspace = 0.0, backward_workspace = 0.0;
};

// The scan of a Mamba-2 mixer and the convolution before it, as operators of one rank.
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
//             chunk scan       4 Q g + P e + N e g + e P N / Q + P e (z), 2 P e (y, before and after
//                              the gate)
//             sum              5 P e + 4 N e g + (8 + 2 e) P N / Q + 8 Q g
//   backward  chunk states, passing (fp32) and C B^T again; the gradients of z, of states and of
//             their passing, of x, B, C, C B^T, and of the decay, a kernel each
//             sum              17 P e + (11 e + 16) N g + (24 + 5 e) P N / Q + 24 Q g
//
// dt and its sums over a chunk, of 4 bytes a head, are left out.  The convolution reads and writes
// its channels; its backward pass runs after it has run again.  FLOPs are those of model/flops.h,
// twice in the backward pass; what a kernel reaches of the memory bandwidth is
// MemoryBoundKernel::Scan.
//
// Several sequences are copied into their own order before the convolution and back after the gate:
// Megatron-LM's activations have the tokens first.
//
// Sources: state-spaces/mamba mamba_ssm/ops/triton/ssd_combined.py, ssd_chunk_state.py,
// ssd_chunk_scan.py, ssd_state_passing.py, ssd_bmm.py (what each kernel loads and stores);
// Megatron-LM megatron/core/ssm/mamba_mixer.py, _ssm_training.

// `element`: bytes of an activation.  The workspaces are the states of chunks in fp32 and in the
// activation format and C B^T; backward those, the gradients of both, and both as GEMMs read them.
ScanBytes scan_bytes(const Mamba& mamba, double element);

// Convolution, scan and copies.  Requires model.mamba and tensor ranks that divide its groups.
LayerOperators lower_mamba_scan(const Transformer& model, const Strategy& strategy);

// The delta rule of a gated delta net and the convolution before it, as operators of one rank.
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
//   backward  T K, T V and the states again, the gradients of values within chunks, of states, of q,
//             k and T K, of T, and of the norms
//             sum               (27 K + 15 V) e + 4 e K V / C + 2 e C
//
// Gates and decays, of 4 bytes a head, are left out.  The convolution reads and writes its
// channels, backward reads them and their gradients and writes gradients.  FLOPs are those of
// model/flops.h, twice in the backward pass; what a kernel reaches of the memory bandwidth is
// MemoryBoundKernel::Scan.
//
// Sources: fla-org/flash-linear-attention fla/ops/gated_delta_rule/chunk.py, fla/ops/common
// chunk_delta_h.py and chunk_o.py (what each kernel loads and stores); Megatron-LM
// megatron/core/ssm/gated_delta_net.py.

// For each token and value head.  The workspaces are T K, T V, new values and states; backward
// those and the gradients of q, k, v and the states.
ScanBytes scan_bytes(const GatedDeltaNet& net, double element);

// What the delta rule saves for its backward pass, in bytes for each token and value head: q, k,
// v, T and the decay in fp32.  Source: fla/ops/gated_delta_rule/chunk.py, save_for_backward.
double saved_by_delta_rule(const GatedDeltaNet& net, double element);

// Convolution, repeated heads and delta rule.  Requires model.gated_delta_net and tensor ranks that
// divide its key heads.
LayerOperators lower_delta_rule(const Transformer& model, const Strategy& strategy);

// The selective scan of a Mamba-1 mixer as Jamba has it, and the convolution before it, as
// operators of one rank.
//
// A mixer projects a token to x and z (MixerInput), convolves the channels of x, projects them to
// the bottleneck of the steps, B and C (SelectionProjection), normalises each of the three,
// projects the steps up (StepProjection), scans, gates with z and projects back (MixerOutput).
// Tensor ranks divide the channels, each has the tokens of all: they sum what SelectionProjection
// gives, t (r_t + 2 N) values, and the gradient of what the norms give.  Notation: t tokens of the
// rank, d_i channels with states of N, chunks of Q = 2048 tokens (a sequence, if that is shorter);
// e bytes an activation.
//
// One kernel scans: a block of threads has a channel and its chunks one after the other.  It loads
// B and C again for each channel, and adds their gradients to those of other channels by atomics in
// fp32; all channels of a sequence share these, so that they lie in the last-level cache, and what
// the kernel reaches is the bandwidth there: its rate, MemoryBoundKernel::SelectiveScan, is
// relative to device memory all the same.  Bytes that are loaded and stored for each token and
// channel:
//
//   forward   x, dt, z; y before and after the gate   5 e
//             B, C                                    2 N e
//             states of chunks                        8 N / Q      decay and state in fp32
//   backward  x, dt twice, z, y, dy; dz, dx, d(dt)    9 e
//             B, C                                    2 N e
//             their gradients, read and written       16 N
//             states of chunks                        8 N / Q
//
// The kernel has a sequence in neighbouring places, linear layers have a token so: x, dt and z are
// copied into its order, dy back, and dx and dz are joined; x, which two layers read, has the sum
// of two gradients.  The convolution reads and writes its channels, backward reads them and their
// gradients and writes gradients.  FLOPs are those of model/flops.h, twice in the backward pass.
//
// Sources: state-spaces/mamba csrc/selective_scan/selective_scan_fwd_kernel.cuh,
// selective_scan_bwd_kernel.cuh (loads, stores, atomics, chunks) and
// mamba_ssm/ops/selective_scan_interface.py, SelectiveScanFn (copies, what is saved);
// huggingface/transformers models/jamba/modeling_jamba.py, cuda_kernels_forward (no mamba_inner_fn,
// which has no norms); vllm-project/vllm model_executor/layers/mamba/mamba_mixer.py (tensor ranks).

// `tokens`: of a sequence.  The workspaces are dt before it is copied; backward dy in the kernel's
// order and the gradients of x and dt.
ScanBytes scan_bytes(const Mamba1& mamba, int tokens, double element);

// What the scan saves for its backward pass beside dt, in bytes for each token and channel: x and z
// in its order, y before the gate, and the states of chunks.  Source: SelectiveScanFn,
// save_for_backward.
double saved_by_selective_scan(const Mamba1& mamba, int tokens, double element);

// The parts before and after the projections of B, C and the steps: the convolution; copies and
// scan.  Require model.mamba1 and tensor ranks that divide its channels.
LayerOperators lower_mamba1_convolution(const Transformer& model, const Strategy& strategy);
LayerOperators lower_selective_scan(const Transformer& model, const Strategy& strategy);

}  // namespace llmsim::sim
