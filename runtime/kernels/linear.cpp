#include "runtime/kernels/linear.h"

#include <ATen/ATen.h>

#include "runtime/kernels/low_precision_linear.h"

namespace llmsim::runtime {
namespace {

// Calls visit(expert, first row, rows) for each expert that has some.
template <typename Visit>
void for_each_expert(const std::vector<std::int64_t>& rows, const Visit& visit) {
  std::int64_t first = 0;
  for (std::size_t expert = 0; expert < rows.size(); ++expert) {
    if (rows[expert] > 0) visit(static_cast<std::int64_t>(expert), first, rows[expert]);
    first += rows[expert];
  }
}

}  // namespace

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          GemmFormat format) {
  if (format == GemmFormat::Fp8) return low_precision_forward(x, weight, bias);
  return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor linear_data_gradient(const at::Tensor& dy, const at::Tensor& weight, GemmFormat format) {
  return format == GemmFormat::Fp8 ? low_precision_data_gradient(dy, weight) : at::mm(dy, weight);
}

void add_linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                at::Tensor weight_gradient, at::Tensor bias_gradient,
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
  gradient.add_(gradient.scalar_type() == addend.scalar_type() ? addend
                                                               : addend.to(gradient.scalar_type()));
}

at::Tensor expert_linear(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                         const std::vector<std::int64_t>& rows) {
  at::Tensor y = at::empty({x.size(0), weights.size(1)}, x.options());
  for_each_expert(rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    at::Tensor own = y.narrow(0, first, count);
    const at::Tensor input = x.narrow(0, first, count), weight = weights.select(0, expert).t();
    if (biases.defined()) {
      at::addmm_out(own, biases.select(0, expert), input, weight);
    } else {
      at::mm_out(own, input, weight);
    }
  });
  return y;
}

at::Tensor expert_linear_data_gradient(const at::Tensor& dy, const at::Tensor& weights,
                                       const std::vector<std::int64_t>& rows) {
  at::Tensor dx = at::empty({dy.size(0), weights.size(2)}, dy.options());
  for_each_expert(rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    at::Tensor own = dx.narrow(0, first, count);
    at::mm_out(own, dy.narrow(0, first, count), weights.select(0, expert));
  });
  return dx;
}

void add_expert_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                const at::Tensor& weight_gradients,
                                const at::Tensor& bias_gradients,
                                const std::vector<std::int64_t>& rows) {
  for_each_expert(rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    const at::Tensor bias =
        bias_gradients.defined() ? bias_gradients.select(0, expert) : at::Tensor();
    add_linear_weight_gradient(dy.narrow(0, first, count), x.narrow(0, first, count),
                               weight_gradients.select(0, expert), bias);
  });
}

}  // namespace llmsim::runtime
