// What the runtime's transformer block holds while it runs, to the byte: the executing counterpart is runtime/model/block.h.
//
// The runtime has no autograd.  Its kernels allocate their results and free each tensor once it has been used, in an order that
// is written down there; here the same order is followed with sizes alone, taken from the operators of the block.  Sizes, e bytes
// an activation, R elements of the residual stream on this rank, r its rows:
//
//   LayerNorm   y R e, mean and deviation 2 r e; backward dx R e, gradients of the weights 2 h e and two partial sums of h
//   RMSNorm     y R e, deviation 4 r, and an fp32 copy on the way where e < 4; backward two fp32 tensors of R elements
//   projections y; backward dx, and for each bias a sum of its size; weight gradients are added in place
//   attention   unfused: two score tensors at once; blockwise: those of a block of queries (kAttentionBlock)
//   activation  y, and silu(gate); backward dx in the place of dy
//   latents     mla_tape.h, in the place of the projection to q, k and v
//   experts     experts_tape.h, in the place of the MLP
//   tensor ranks  gathered inputs and gradients for the time of a GEMM, with sequence parallelism
//
// Checked against counted allocations in tests/runtime, on the CPU and on the meta device.
#pragma once

#include "sim/memory/ledger.h"
#include "sim/model/transformer.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Queries that the runtime's blockwise attention handles at once.
inline constexpr int kAttentionBlock = 128;

// Forward: from the input (held before and, as the checkpoint, after) to the output.  Backward: from the gradient of the output
// and the tape to the gradient of the input.
struct BlockTape {
  PassMemory forward;
  PassMemory backward;
};

// Under Recompute None, Full or Selective; the caller mixes blocks.
BlockTape block_tape(const Transformer& model, const Strategy& strategy, const Framework& framework, const Recompute& recompute,
                     LayerKind kind = LayerKind::Dense);

// The norms of the runtime, which its head uses too: rows of h elements, e bytes each.
struct NormTape {
  Norm kind = Norm::LayerNorm;
  double rows = 0.0;
  double width = 0.0;
  double element = 4.0;
  double gradient_element = 4.0;  // of the weights' gradients
  bool weight = true;
  bool bias = false;

  Bytes output() const { return Bytes(rows * width * element); }
  Bytes statistics() const;
  void forward(Ledger& ledger) const;   // ends holding output and statistics
  void backward(Ledger& ledger) const;  // ends holding the gradient of the input beside everything it was given
};

}  // namespace llmsim::sim
