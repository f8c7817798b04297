#include "runtime/kernels/linear.h"

#include <ATen/ATen.h>

#include "runtime/kernels/low_precision_linear.h"

namespace llmsim::runtime {

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, GemmFormat format) {
  if (format == GemmFormat::Fp8) return low_precision_forward(x, weight, bias);
  return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor linear_data_gradient(const at::Tensor& dy, const at::Tensor& weight, GemmFormat format) {
  return format == GemmFormat::Fp8 ? low_precision_data_gradient(dy, weight) : at::mm(dy, weight);
}

void add_linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, at::Tensor weight_gradient, at::Tensor bias_gradient,
                                GemmFormat format) {
  if (format == GemmFormat::Fp8) {
    accumulate(weight_gradient, low_precision_weight_gradient(dy, x));
  } else if (weight_gradient.scalar_type() == dy.scalar_type()) {
    weight_gradient.addmm_(dy.t(), x);
  } else {
    accumulate(weight_gradient, at::mm(dy.t(), x));
  }
  if (bias_gradient.defined()) accumulate(bias_gradient, dy.sum(0));
}

void accumulate(at::Tensor gradient, const at::Tensor& addend) {
  gradient.add_(gradient.scalar_type() == addend.scalar_type() ? addend : addend.to(gradient.scalar_type()));
}

}  // namespace llmsim::runtime
