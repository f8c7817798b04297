// A Mamba-1 mixer as Jamba has it, in the place of attention, on one rank.
//
//   norm, [gather], (t, 2 d_i/n, h), convolution, (t, r_t + 2 N, d_i/n), [sum], norms,
//     (t, d_i/n, r_t), scan, (t, h, d_i/n), [reduce]
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
// relative to device memory all the same.  Bytes that are loaded and stored for each
// token and channel:
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
// gradients and writes gradients.  FLOPs are those of model/mixers.h, twice in the backward pass.
//
// Sources: state-spaces/mamba csrc/selective_scan/selective_scan_fwd_kernel.cuh,
// selective_scan_bwd_kernel.cuh (loads, stores, atomics, chunks) and
// mamba_ssm/ops/selective_scan_interface.py, SelectiveScanFn (copies, what is saved);
// huggingface/transformers models/jamba/modeling_jamba.py, cuda_kernels_forward (no mamba_inner_fn,
// which has no norms); vllm-project/vllm model_executor/layers/mamba/mamba_mixer.py (tensor ranks).
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/layer_builder.h"
#include "sim/operators/scan.h"

namespace llmsim::sim {

// `tokens`: of a sequence.  The workspaces are dt before it is copied; backward dy in the kernel's
// order and the gradients of x and dt.
ScanBytes scan_bytes(const Mamba1& mamba, int tokens, double element);

// What the scan saves for its backward pass in addition to dt, in bytes for each token and channel:
// x and z in its order, y before the gate, and the states of chunks.  Source:
// SelectiveScanFn, save_for_backward.
double saved_by_selective_scan(const Mamba1& mamba, int tokens, double element);

// The half of a layer between its norm and its residual; `alone`: the layer has no MLP.
// Requires model.mamba1 and tensor ranks that divide its channels.
TensorId add_mamba1_mixer(LayerBuilder& layer, TensorId normed, bool alone);

}  // namespace llmsim::sim
