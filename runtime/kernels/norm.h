// LayerNorm and RMSNorm of each row, forward and backward.
//
// LayerNorm is the library's own kernel.  RMSNorm is composed of elementwise operators, as
// models written in plain torch have it: y = x / sqrt(mean(x^2) + eps) * w in fp32,
// rounded once at the end.
//
// Memory, x (t, h) of e bytes an element: forward allocates y and keeps one (RMSNorm) or two
// (LayerNorm) values per token; a 16-bit RMSNorm works on an fp32 copy of x.  Backward allocates dx
// and works, RMSNorm, on two fp32 tensors of x's shape.
#pragma once

#include <ATen/core/Tensor.h>

#include "sim/model/transformer.h"

namespace llmsim::runtime {

struct NormOutput {
  at::Tensor y;
  at::Tensor mean;  // LayerNorm
  at::Tensor rstd;  // 1 / standard deviation, or 1 / root mean square; (t, 1)
};

NormOutput norm(sim::Norm kind, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias);

// Gives dx; adds to the gradients of weight and bias where they are defined.
// `forward.y` is not needed.
at::Tensor norm_backward(sim::Norm kind, at::Tensor dy, const at::Tensor& x,
                         const NormOutput& forward, const at::Tensor& weight,
                         const at::Tensor& bias, const at::Tensor& weight_gradient,
                         const at::Tensor& bias_gradient);

}  // namespace llmsim::runtime
