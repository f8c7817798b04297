#include "runtime/kernels/norm.h"

#include <array>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/kernels/linear.h"

namespace llmsim::runtime {
namespace {

constexpr double kEpsilon = 1e-5;

at::Tensor as_fp32(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? x : x.to(at::kFloat);
}

// A copy that may be overwritten.
at::Tensor fp32_copy(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? x.clone() : x.to(at::kFloat);
}

at::Tensor rounded(at::Tensor x, at::ScalarType type) {
  return x.scalar_type() == type ? std::move(x) : x.to(type);
}

NormOutput rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor y = fp32_copy(x);
  at::Tensor rstd = at::linalg_vector_norm(y, 2, {-1}, /*keepdim=*/true);
  rstd.square_().div_(x.size(-1)).add_(kEpsilon).rsqrt_();
  y.mul_(rstd);
  if (weight.defined()) y.mul_(as_fp32(weight));
  return {.y = rounded(std::move(y), x.scalar_type()), .mean = {}, .rstd = std::move(rstd)};
}

// dx = rstd (dy w - xhat mean(dy w xhat)) with xhat = x rstd.
at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                             const at::Tensor& weight, const at::Tensor& weight_gradient) {
  at::Tensor xhat = fp32_copy(x);
  xhat.mul_(rstd);
  at::Tensor dx = fp32_copy(dy);
  dx.mul_(xhat);
  if (weight_gradient.defined()) accumulate(weight_gradient, dx.sum(0));
  const at::Tensor scale = weight.defined() ? as_fp32(weight) : at::Tensor();
  if (scale.defined()) dx.mul_(scale);
  const at::Tensor mean = dx.mean(-1, /*keepdim=*/true);
  dx.copy_(dy);
  if (scale.defined()) dx.mul_(scale);
  dx.addcmul_(xhat, mean, -1).mul_(rstd);
  xhat.reset();
  return rounded(std::move(dx), dy.scalar_type());
}

}  // namespace

NormOutput norm(sim::Norm kind, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias) {
  if (kind == sim::Norm::RmsNorm) return rms_norm(x, weight);
  auto [y, mean, rstd] = at::native_layer_norm(x, {x.size(-1)}, weight, bias, kEpsilon);
  return {.y = std::move(y), .mean = std::move(mean), .rstd = std::move(rstd)};
}

at::Tensor norm_backward(sim::Norm kind, at::Tensor dy, const at::Tensor& x,
                         const NormOutput& forward, const at::Tensor& weight,
                         const at::Tensor& bias, const at::Tensor& weight_gradient,
                         const at::Tensor& bias_gradient) {
  if (kind == sim::Norm::RmsNorm)
    return rms_norm_backward(dy, x, forward.rstd, weight, weight_gradient);
  const std::array<bool, 3> wanted{true, weight_gradient.defined(), bias_gradient.defined()};
  auto [dx, dw, db] = at::native_layer_norm_backward(dy, x, {x.size(-1)}, forward.mean,
                                                     forward.rstd, weight, bias, wanted);
  dy.reset();
  if (weight_gradient.defined()) accumulate(weight_gradient, dw);
  if (bias_gradient.defined()) accumulate(bias_gradient, db);
  return dx;
}

}  // namespace llmsim::runtime
