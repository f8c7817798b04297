// Memory traffic of the operators that are memory-bound: bytes per element and kernels, by how a
// framework fuses them.
//
// None of these operators is a GEMM: their arithmetic intensity is a few FLOPs per byte, so that
// the bytes bound their time.  Each function names its elements; `e` is the size of one
// activation value in bytes.  A dropout mask is 1 byte.  A read and a write count once each, so
// that a tensor that one kernel writes and the next one reads counts twice: fusion saves these two.
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// LayerNorm or RMSNorm, per element of the normalised tensor:
//
//                          forward              backward
//   fused                  2 e                  3 e             read dy and x, write dx
//   eager LayerNorm        2 e                  5 e             dy and x again, for its weights
//   eager, norms_in_fp32   2 e + 4 * 4          2 e + 7 * 4     casts to fp32 and back
//   eager RMSNorm          5 e + 6 * 4          6 e + 10 * 4    elementwise kernels on fp32 copies
Traffic norm_traffic(Norm norm, const Framework& framework, double e);

// GELU or a gated activation such as SwiGLU, per element of the FFN width:
//
//                                          forward   backward
//   GELU, one kernel                       2 e       3 e
//   GELU of eight elementwise operators    18 c      28 c     c = composed_activation_bytes
//   gated, fused                           3 e       5 e
//   gated, eager                           5 e       9 e      SiLU (2 e), elementwise product (3 e)
//
// A gated activation that saves its inputs in 8 bits (SavedActivations::fp8_activation_inputs)
// casts both of them there and back: 2 (e + 1) more in each direction.
Traffic activation_traffic(bool gated, const Framework& framework, double e);

// Of each value between those eight operators: autocast raises to a power in fp32, and what follows
// stays there (torch.amp's list of operators that autocast to float32: pow); e without it.
double composed_activation_bytes(const Framework& framework, double e);

// Rotary positions, per element of q and k.  Fused: 2 e in either direction.  Eager: the rotated
// half (negate, concatenate), two elementwise products and their sum, forward 10 e, backward 12 e.
Traffic rotary_traffic(const Framework& framework, double e);

// Bias, dropout and residual add, per element of the residual stream: 3 e in either direction.
// Dropout adds the mask, 1 forward and 2 e + 1 backward; in eager mode it is a kernel of its own,
// 2 e more forward.
Traffic residual_traffic(const Framework& framework, double e);

// Whether the hand-written masked softmax takes `matrices` score matrices (sequences x heads of a
// rank) of `keys` columns: it works on four of them at a time.  Source: Megatron-LM
// megatron/model/fused_softmax.py, FusedScaleMaskSoftmax.is_kernel_available.
bool softmax_kernel_takes(std::int64_t matrices, std::int64_t keys);

// Scale, mask, softmax and dropout of unfused attention, per score.  One fused kernel: 2 e forward,
// 3 e backward; it is used where `one_kernel` (softmax_kernel_takes).  Otherwise scale, mask, casts
// and softmax are kernels of their own; with s the bytes of a score in the softmax, 4 where
// Framework::softmax_in_fp32 and e elsewhere,
//
//   forward   4 e + 2 s + 2 (e + s)      the last term, the two casts, only where the softmax is
//   backward  4 e + 3 s + 2 (e + s)      in fp32
//
// Dropout adds 2 e + 1 in either direction.
Traffic softmax_traffic(const Framework& framework, double e, bool one_kernel = true);

// The position bias of ALiBi, per score of unfused attention.  Eager: one kernel reads scores and
// bias and writes scores, 3 e.  Fused: the bias is written where the GEMM of q and k accumulates,
// which reads it, 2 e.  It has no gradient.
Traffic position_bias_traffic(const Framework& framework, double e);

// Layout changes between the projections and attention, per element of q, k, v and the attention
// output: 2 e in either direction in eager mode, nothing elsewhere.
Traffic layout_traffic(const Framework& framework, double e);

// The router's choice, per probability: a softmax in fp32, top-k, and the order of the rows.  The
// backward pass scatters the gradients of the chosen experts and differentiates the softmax.
//
//   fused   e + 2 * 4 in either direction
//   eager   forward e + 4 * 4, six kernels: cast, softmax, top-k, weights, sort, tokens; backward
//           e + 5 * 4
Traffic router_traffic(const Framework& framework, double e);

// Rows permuted, per element: a read and a write in either direction, 2 e.
Traffic permutation_traffic(double e);

// The weighted sum of a token's `top_k` rows, per element of the rows.
//
//   eager        one expert after the other: forward a multiply-add into the sum (3 e); backward
//                the gradient of the weight (elementwise product and its sum over the row, 4 e)
//                and that of the row (2 e)
//   one kernel   forward e + e / top_k: reads every row and writes the sum; backward
//                2 e + e / top_k: reads rows and gradient, writes rows
Traffic combination_traffic(const Framework& framework, double e, int top_k);

// A bias that each expert's rows get times the weight of the row, in fp32 and one expert after the
// other, per element:
//
//   forward    24 + 2 e   bias times weight (4 written), sum (e + 4 read, 4 written), one tensor of
//                         all experts (8), cast back (4 + e)
//   backward   32 + 4 e   cast (e + 4), a cast for each expert (4 + e), one tensor of them (2 e);
//                         for bias and weight each an elementwise product and its sum over 4-byte
//                         elements (8 + 4)
Traffic weighted_bias_traffic(double e, int experts);

// Loss from logits, per logit: log-softmax and negative log likelihood.
//
//   fused        2 e in either direction: by a compiler, or by a kernel that writes the gradient
//                over 16-bit logits
//   16 bits      forward 2 e, backward e (zeros around the gradients of the labels) + 3 e
//   fp32         forward e + 3 * 4, backward e + 5 * 4
Traffic cross_entropy_traffic(const Framework& framework, double e);

// Quantisation of a 16-bit tensor to n bytes an element, for the GEMMs along both of its axes.  All
// of it is in `forward`:
//
//   recipe                         bytes     kernels
//   Delayed                        2 + c n   2    c = low_precision.copies
//   Current                        4 + c n   3    a pass for the maximum first
//   Rowwise                        6 + 2 n   3    rows in one kernel (2 + n), columns in two
//                                                 (2, 2 + n)
//   RowwiseHighPrecisionGradient   2 + n     1    activations and their gradients, which one GEMM
//                                                 reads; weights as Rowwise
//   Blockwise, Mxfp8               2 + 2 b   1    where a hand-written kernel casts along both axes
//                                  4 + 2 b   2    elsewhere, one kernel along each
//   Nvfp4                          as Mxfp8, and 2 bytes in a kernel before: the maxima of the
//                                  tensor and of its Hadamard transform
//
// b = n + scale_bytes: an element with its share of the block scales.  Where there is a kernel
// along each axis and that along rows has the rate r = low_precision.row_cast_rate relative to
// others, both together have the rate 2 / (1 + 1 / r).
// Source: torchao float8 README (a maximum is a pass over memory); TransformerEngine casts and
// transposes in one kernel.
Traffic quantise_traffic(const Framework& framework, LowPrecisionScaling scaling, bool weight,
                         double n);

}  // namespace llmsim::sim
