// What the scans that mix tokens in the place of attention have in common (mamba2.h,
// gated_delta_net.h, mamba1.h): their traffic, and the convolution before them.
#pragma once

#include <initializer_list>

#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// The norm of a mixer's output and its product with a gate, two kernels; returns the product.
// `saves_deviations`: one fp32 value of each token stays for the norm's backward pass.
TensorId add_gated_norm(LayerBuilder& layer, const char* label, TensorId output,
                        bool saves_deviations);

// A scan works on whole sequences: over context ranks `x` of a rank's tokens and all heads becomes
// that of all tokens and a rank's heads, or back.  An all-to-all for each of `widths`, values of a
// token on a tensor rank, and a copy of `columns` between the order of balanced attention and that
// of the tokens.  Of one context rank it is `x`.
// Source: Megatron-LM megatron/core/ssm/mamba_context_parallel.py.
TensorId exchange_heads(LayerBuilder& layer, const char* name, TensorId x, double columns,
                        std::initializer_list<double> widths);

// Of a scan on one rank, for each token and head (of Mamba-1: channel): bytes that its kernels
// move, and that it makes on the way and has at once, at most.
struct ScanBytes {
  double forward = 0.0, backward = 0.0;
  double forward_workspace = 0.0, backward_workspace = 0.0;
};

// A convolution of `elements` values of channels that saves what it reads: forward reads and writes
// them, backward reads them and their gradients and writes gradients.
LayerOperators convolution(double elements, double element);

}  // namespace llmsim::sim
