// The GEMMs of a linear layer in 8-bit floating point (aten::_scaled_mm of libtorch
// 2.x, called by name).
//
// Both factors are cast with one scale each, from their own largest magnitude a: x / s with s = a /
// 448 (weights and inputs, e4m3) or a / 57344 (gradients, e5m2); the GEMM is accumulated in fp32
// and rounded to the format of x.  Factors that stand across are copied first: the kernel
// multiplies rows by columns.
// Not run anywhere yet: libtorch 1.13 has no such formats.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace llmsim::runtime {

// Rows and columns of every factor are multiples of this.
inline constexpr std::int64_t kLowPrecisionMultiple = 16;

bool has_low_precision_gemms(c10::Device device);

// Throws Error where the device or this libtorch lacks them.
void require_low_precision_gemms(c10::Device device);

// As in kernels/linear.h.
at::Tensor low_precision_forward(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias);
at::Tensor low_precision_data_gradient(const at::Tensor& dy, const at::Tensor& weight);
at::Tensor low_precision_weight_gradient(const at::Tensor& dy, const at::Tensor& x);

}  // namespace llmsim::runtime
