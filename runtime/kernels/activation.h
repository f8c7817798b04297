// The MLP's activation: GELU (tanh form) of x, or SwiGLU of the two halves of x: silu(gate) * up.
//
// Memory, x (t, f) or (t, 2 f): forward allocates y (t, f) and, gated, silu(gate), which is saved
// for backward; backward allocates dx and overwrites dy.
#pragma once

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

struct ActivationOutput {
  at::Tensor y;
  at::Tensor silu;  // gated only
};

ActivationOutput activation(bool gated, const at::Tensor& x);

// dx; `silu` is that of the forward pass.
at::Tensor activation_backward(bool gated, at::Tensor dy, const at::Tensor& x,
                               const at::Tensor& silu);

}  // namespace llmsim::runtime
