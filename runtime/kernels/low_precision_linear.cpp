#include "runtime/kernels/low_precision_linear.h"

#include <limits>
#include <string>

#include <ATen/ATen.h>
#include <torch/version.h>

#include "runtime/library/operator_call.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

const std::string kGemm = "aten::_scaled_mm";

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)

constexpr bool kHasFormats = true;
constexpr double kLargestE4m3 = 448.0, kLargestE5m2 = 57344.0;

struct LowPrecision {
  at::Tensor values;
  at::Tensor scale;  // fp32
};

// One pass for the largest value, one to scale in the 16 bits that are there, one to round.
LowPrecision cast(const at::Tensor& x, at::ScalarType type, double largest) {
  const at::Tensor scale =
      at::linalg_vector_norm(x, std::numeric_limits<double>::infinity(), {}, false, at::kFloat)
          .clamp_min_(1e-12)
          .div_(largest);
  return {.values = x.mul(scale.reciprocal()).to(type), .scale = scale};
}
LowPrecision weights(const at::Tensor& x) { return cast(x, at::kFloat8_e4m3fn, kLargestE4m3); }
LowPrecision gradients(const at::Tensor& x) { return cast(x, at::kFloat8_e5m2, kLargestE5m2); }

// Bytes move where 16 bits would move twice as many.
LowPrecision across(LowPrecision x) {
  x.values = x.values.t().contiguous();
  return x;
}

// a (m, k) by b^T, b (n, k).
at::Tensor gemm(const LowPrecision& a, const LowPrecision& b, at::ScalarType type) {
  const auto results = call_operator(
      kGemm, {a.values, b.values.t(), a.scale, b.scale, c10::IValue(), c10::IValue(), type});
  if (!results)
    throw Error("this libtorch, " TORCH_VERSION ", has no " + kGemm +
                " of the form that the runtime calls");
  return results->front().toTensor();
}

#else

constexpr bool kHasFormats = false;

struct LowPrecision {};
LowPrecision weights(const at::Tensor&) { return {}; }
LowPrecision gradients(const at::Tensor&) { return {}; }
LowPrecision across(LowPrecision x) { return x; }
at::Tensor gemm(const LowPrecision&, const LowPrecision&, at::ScalarType) {
  throw Error("libtorch " TORCH_VERSION " has no fp8 formats");
}

#endif

}  // namespace

bool has_low_precision_gemms(c10::Device device) {
  if (!kHasFormats || !device.is_cuda() || !has_operator(kGemm)) return false;
  // The operator is there on devices that cannot multiply so, and on those that take other formats.
  try {
    const at::Tensor x = at::ones({16, 16}, at::TensorOptions(at::kBFloat16).device(device));
    low_precision_forward(x, x, {});
    low_precision_data_gradient(x, x);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void require_low_precision_gemms(c10::Device device) {
  if (has_low_precision_gemms(device)) return;
  if (!device.is_cuda())
    throw Error("precision = fp8 runs on CUDA and ROCm devices, not on " + device.str() +
                "; bf16 runs on all");
  throw Error("precision = fp8 needs libtorch 2.5 or newer with " + kGemm + ", not " TORCH_VERSION);
}

at::Tensor low_precision_forward(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias) {
  at::Tensor y = gemm(weights(x), weights(weight), x.scalar_type());
  return bias.defined() ? y.add_(bias) : y;
}

at::Tensor low_precision_data_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return gemm(gradients(dy), across(weights(weight)), dy.scalar_type());
}

at::Tensor low_precision_weight_gradient(const at::Tensor& dy, const at::Tensor& x) {
  return gemm(across(gradients(dy)), across(weights(x)), dy.scalar_type());
}

}  // namespace llmsim::runtime
