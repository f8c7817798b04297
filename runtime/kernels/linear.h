// The GEMMs of a linear layer: y = x w^T + b, and its two gradients.
//
// Shapes: x (t, k), w (n, k), b (n), y and dy (t, n).  Weights are stored as torch does, one row
// for each output.  Memory: forward allocates y; the data gradient allocates dx; a weight gradient
// is added in place, after a cast where the gradient's format is wider than the GEMM's, and the
// gradient of a bias is a sum over the tokens first.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

// In the format of the operands, or in 8 bits (kernels/low_precision_linear.h).
enum class GemmFormat { Operands, Fp8 };

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          GemmFormat format = GemmFormat::Operands);

at::Tensor linear_data_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                GemmFormat format = GemmFormat::Operands);

// weight_gradient += dy^T x; bias_gradient += sum over tokens of dy where there is a bias.
void add_linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                at::Tensor weight_gradient, at::Tensor bias_gradient,
                                GemmFormat format = GemmFormat::Operands);

// gradient += addend, whatever the two formats.  The cast is a tensor of its own.
void accumulate(at::Tensor gradient, const at::Tensor& addend);

// The GEMMs of several experts: each multiplies its own rows by its own matrix.
//
// Shapes: x (R, k) with the rows of expert 0 first, then those of expert 1, ...; weights (E, n, k),
// biases (E, n); y (R, n).  Memory: forward allocates y, the data gradient dx; weight gradients are
// added in place, one expert's after the other's, as those above are.

// `rows`: of each expert.
at::Tensor expert_linear(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                         const std::vector<std::int64_t>& rows);

at::Tensor expert_linear_data_gradient(const at::Tensor& dy, const at::Tensor& weights,
                                       const std::vector<std::int64_t>& rows);

void add_expert_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                const at::Tensor& weight_gradients,
                                const at::Tensor& bias_gradients,
                                const std::vector<std::int64_t>& rows);

}  // namespace llmsim::runtime
