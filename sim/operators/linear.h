// A linear layer as operators: the GEMM, its casts, and the two GEMMs of its backward pass.
//
//   forward   y(t, n) = x(t, k) w(k, n)              2 t n k FLOP
//   dgrad     dx(t, k) = dy(t, n) w^T(n, k)          2 t n k
//   wgrad     dw(k, n) += x^T(k, t) dy(t, n)         2 t n k, accumulated in the gradient's format
//
// 8- and 4-bit recipes quantise x, w and dy before each GEMM (quantise_traffic in traffic.h), as
// LowPrecisionScaling has it.  Adapters (LoRA) leave w frozen: no wgrad of w, but a pair of GEMMs
// of width `rank` for each adapted matrix.
//
// Frozen weights of 4 bits are no operand of a GEMM: before each that reads them, forward and
// dgrad, a memory-bound kernel makes a 16-bit copy, which is read and thrown away.  Of a value it
// reads 0.5 bytes and its share of an fp32 scale of 64, and writes 2:
//
//   dequantise   (1/2 + 4/64 + 2) k n bytes
//
// Source: bitsandbytes-foundation/bitsandbytes bitsandbytes/autograd/_functions.py, MatMul4Bit:
// dequantize_4bit in forward and in backward.  Scales that are 8-bit themselves (double
// quantisation) take a small kernel more, which is left out; so is the head, which such programs
// leave in 16 bits.
#pragma once

#include <optional>

#include "sim/model/parameters.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

struct LinearContext {
  Precision precision = Precision::Bf16;
  const Framework* framework = nullptr;
  std::optional<Adapters> adapters;
  bool frozen = false;  // no weight gradient, and no adapter either
  // Sharded weights are gathered, and quantised, again in the backward pass.
  bool requantises_weights = false;
};

LayerOperators lower_linear(const LinearContext& context, const char* label, std::int64_t tokens,
                            std::int64_t out, std::int64_t in);
// Under the name of the weight, as it stands on a rank (LayerWeight::on_rank).
LayerOperators lower_linear(const LinearContext& context, const LayerWeight& weight,
                            std::int64_t tokens);
// The gradient of a bias, the sum of its GEMM's output gradient over the tokens, unless that is
// fused; and the GEMMs of the weight's adapters: for a layer that has joined several weights.
void add_bias_gradient(LayerOperators& linear, const LinearContext& context,
                       const LayerWeight& weight, std::int64_t tokens);
void add_adapters(LayerOperators& linear, const LinearContext& context, const LayerWeight& weight,
                  std::int64_t tokens);

// Rows that some experts share out among themselves: each has a matrix of its own.
struct ExpertRows {
  std::int64_t experts = 1;
  std::int64_t busy = 1;             // of which these have rows
  std::int64_t rows = 0;             // of all together
  std::int64_t rows_per_expert = 0;  // rounded up
  bool one_kernel = false;           // for all of them, or one for each
  int multiple = 1;                  // the rows of each are padded to one

  // An expert has any number of rows: half a multiple is missing on average.
  std::int64_t padding() const { return busy * (multiple / 2); }
  std::int64_t padded_rows_per_expert() const { return rows_per_expert + multiple / 2; }
  int kernels() const { return one_kernel ? 1 : static_cast<int>(busy); }
};

// The same for each expert and its rows: one GEMM of `busy` small ones, with the FLOPs and bytes of
// all rows.  Low-precision GEMMs work on padded ones (row_multiple).
LayerOperators lower_expert_linear(const LinearContext& context, const LayerWeight& weight,
                                   const ExpertRows& rows);

// Bytes of one element of a linear layer's input as saved for the weight gradient, with its scales.
double linear_input_bytes(const LinearContext& context);

}  // namespace llmsim::sim
