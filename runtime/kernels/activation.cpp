#include "runtime/kernels/activation.h"

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

constexpr const char* kForm = "tanh";

at::Tensor half(const at::Tensor& x, int which) {
  const std::int64_t width = x.size(1) / 2;
  return x.narrow(1, which * width, width);
}

}  // namespace

ActivationOutput activation(bool gated, const at::Tensor& x) {
  if (!gated) return {.y = at::gelu(x, kForm), .silu = {}};
  at::Tensor silu = at::silu(half(x, 0));
  return {.y = at::mul(silu, half(x, 1)), .silu = silu};
}

at::Tensor activation_backward(bool gated, at::Tensor dy, const at::Tensor& x,
                               const at::Tensor& silu) {
  if (!gated) return at::gelu_backward(dy, x, kForm);
  at::Tensor dx = at::empty_like(x);
  at::Tensor gate = half(dx, 0), up = half(dx, 1);
  at::mul_out(up, dy, silu);
  dy.mul_(half(x, 1));
  at::silu_backward_out(gate, dy, half(x, 0));
  return dx;
}

}  // namespace llmsim::runtime
