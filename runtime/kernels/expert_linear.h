// The GEMMs of several experts: each multiplies its own rows by its own matrix.
//
// Shapes: x (R, k) with the rows of expert 0 first, then those of expert 1, ...; weights (E, n, k), biases (E, n); y (R, n).
// Memory: forward allocates y, the data gradient dx; weight gradients are added in place, one expert's after the other's, as
// those of linear.h are.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

// `rows`: of each expert.
at::Tensor expert_linear(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                         const std::vector<std::int64_t>& rows);

at::Tensor expert_linear_data_gradient(const at::Tensor& dy, const at::Tensor& weights, const std::vector<std::int64_t>& rows);

void add_expert_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight_gradients,
                                const at::Tensor& bias_gradients, const std::vector<std::int64_t>& rows);

}  // namespace llmsim::runtime
