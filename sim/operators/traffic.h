// Memory traffic of the operators that are memory-bound: bytes per element and kernels, by how a
// framework fuses them.
//
// Elements are counted as stated for each function; `e` is the size of one activation value in
// bytes.  Masks are 1 byte.  Reads and writes count once each; a tensor that one kernel writes and
// the next reads counts twice.  That is what fusion saves.
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// LayerNorm or RMSNorm, per element of the normalised tensor.  Fused: read x, write y (2 e);
// backward reads dy and x, writes dx (3 e). An eager LayerNorm reads dy and x again for the
// gradients of its weights (5 e); an eager RMSNorm is about six kernels on fp32 copies.
Traffic norm_traffic(Norm norm, const Framework& framework, double e);

// GELU (2 e, 3 e; composed of eight elementwise operators 18 e, 28 e) or a gated activation (fused
// 3 e, 5 e; eager silu then GEMM 5 e, 9 e), per element of the ffn width; a gated one that keeps its
// inputs in 8 bits casts both there and back, 2 (e + 1) more each way.
Traffic activation_traffic(bool gated, const Framework& framework, double e);

// Rotary positions, per element of q and k.
Traffic rotary_traffic(const Framework& framework, double e);

// Bias, dropout and residual add, per element of the residual stream.
Traffic residual_traffic(const Framework& framework, double e);

// Scale, mask, softmax and dropout of unfused attention, per score.
// Whether the hand-written masked softmax takes `matrices` score matrices (sequences x heads of a
// rank) of `keys` columns: it works on four of them at a time.  Source: Megatron-LM
// megatron/model/fused_softmax.py, FusedScaleMaskSoftmax.is_kernel_available.
bool softmax_kernel_takes(std::int64_t matrices, std::int64_t keys);

// `one_kernel`: the framework's fused kernel takes the shape; otherwise scaling, masking, casts and
// softmax are kernels of their own.
Traffic softmax_traffic(const Framework& framework, double e, bool one_kernel = true);

// The position bias of ALiBi, per score of unfused attention: eager, one kernel that reads scores
// and bias; fused, the bias is laid down where the GEMM of q and k accumulates (written, and read
// by the GEMM).  It has no gradient.
Traffic position_bias_traffic(const Framework& framework, double e);

// Layout changes between the projections and attention, per element of q, k, v and the attention
// output.
Traffic layout_traffic(const Framework& framework, double e);

// The router's choice, per probability: softmax in fp32, the largest, and the order of the rows;
// backward scatters the gradients of the chosen and goes back through the softmax.  Eager: a kernel
// for each of cast, softmax, top-k, weights, sort and tokens.
Traffic router_traffic(const Framework& framework, double e);

// Rows moved to other places, per element: a read and a write, either way.
Traffic permutation_traffic(double e);

// The weighted sum of a token's `top_k` rows, per element of the rows.  Eager, one expert after the
// other: a GEMM or a multiply-add into the sum (3 e); backward the gradient of the weight (GEMM and
// sum over the row, 4 e) and that of the row (2 e).  One kernel: reads every row and writes the
// sum; backward reads rows and gradient, writes rows.
Traffic combination_traffic(const Framework& framework, double e, int top_k);

// A bias that each expert's rows get times the weight of the row, in fp32 and one expert after the
// other, per element: GEMM (writes 4), sum (e + 4 read, 4 written), one tensor of all (8), cast
// back (4 + e).  Backward a cast (e + 4), casts for each expert (4 + e) and one tensor of them (2
// e); of bias and weight a GEMM and a sum each over 4-byte elements (8 + 4).
Traffic weighted_bias_traffic(double e, int experts);

// Loss from logits, per logit: log-softmax and negative log likelihood; backward writes the
// gradient over the logits.
Traffic cross_entropy_traffic(const Framework& framework, double e);

// Quantisation of a 16-bit tensor to n bytes an element for the GEMMs along both of its axes.
// Bytes are of forward_bytes:
//
//   Delayed 2 + c n;  Current 4 + c n, c copies (Framework::low_precision_copies);  Rowwise 6 + 2
//                     n: the rows in one kernel (2 +
//   n), the columns in two (2, 2 + n) RowwiseHighPrecisionGradient 2 + n for activations and their
//     gradients, which are needed along one axis only Blockwise, Mxfp8 2 + 2 n where one
//     hand-written kernel casts along both axes, else 2 + n along each; r of
//     Framework::low_precision.row_cast_rate, the rate along rows, is 2 / (1 + 1 / r) of both
//   Nvfp4 2 more, in a kernel before: the maxima of the tensor and of its Hadamard transform
//
// where n of block scales are with their scales (scale_bytes).
// Source: torchao float8 README (a maximum is a pass over memory); TransformerEngine casts and
// transposes in one kernel.
Traffic quantise_traffic(const Framework& framework, LowPrecisionScaling scaling, bool weight,
                         double n);

}  // namespace llmsim::sim
