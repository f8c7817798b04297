#include "sim/operators/traffic.h"

#include "sim/base/dtype.h"

namespace llmsim::sim {
namespace {

constexpr double kMask = 1.0;

bool eager(const Framework& framework) { return framework.fusion == ElementwiseFusion::Eager; }

}  // namespace

Traffic norm_traffic(Norm norm, const Framework& framework, double e) {
  if (norm == Norm::RmsNorm && composes_rms_norm(framework)) {
    // to fp32, square, mean, add-rsqrt, x times rsqrt, cast back, times weight
    return {.forward = {2 * e + 5 * kFp32Bytes + kFp32Bytes + 3 * e, 6},
            .backward = {6 * e + 10 * kFp32Bytes, 12}};
  }
  if (eager(framework) && framework.norms_in_fp32) {
    // cast in, norm in fp32, cast out for the next GEMM; back: cast, input gradient, weight and
    // bias gradients, cast
    return {.forward = {2 * e + 4 * kFp32Bytes, 3}, .backward = {2 * e + 7 * kFp32Bytes, 4}};
  }
  if (eager(framework)) {
    // the weight and bias gradients read dy and x a second time
    return {.forward = {2 * e, 1}, .backward = {5 * e, 2}};
  }
  return {.forward = {2 * e, 1}, .backward = {3 * e, 2}};
}

double composed_activation_bytes(const Framework& framework, double e) {
  return framework.casts_weights_per_microbatch ? kFp32Bytes : e;
}

Traffic activation_traffic(bool gated, const Framework& framework, double e) {
  if (!gated && eager(framework) && framework.composed_activation) {
    // x^3, times, plus x, times, tanh, plus 1, x / 2, times; each with its own backward kernels
    const double held = composed_activation_bytes(framework, e);
    return {.forward = {18 * held, 8}, .backward = {28 * held, 13}};
  }
  if (!gated) return {.forward = {2 * e, 1}, .backward = {3 * e, 1}};
  Traffic traffic = eager(framework) ? Traffic{.forward = {5 * e, 2}, .backward = {9 * e, 3}}
                                     : Traffic{.forward = {3 * e, 1}, .backward = {5 * e, 1}};
  if (framework.saved.fp8_activation_inputs) {
    traffic.forward.bytes += 2 * (e + 1), traffic.backward.bytes += 2 * (1 + e);
    ++traffic.forward.kernels, ++traffic.backward.kernels;
  }
  return traffic;
}

Traffic rotary_traffic(const Framework& framework, double e) {
  // eager: rotate-half (negate, concatenate), two elementwise products, one sum, each for q and k
  if (eager(framework)) return {.forward = {10 * e, 8}, .backward = {12 * e, 10}};
  return {.forward = {2 * e, 2}, .backward = {2 * e, 2}};
}

Traffic residual_traffic(const Framework& framework, double e) {
  Traffic traffic{.forward = {3 * e, 1}, .backward = {3 * e, 1}};
  if (framework.dropout <= 0.0) return traffic;
  traffic.backward.bytes += 2 * e + kMask;
  traffic.backward.kernels += 1;
  traffic.forward.bytes += kMask;
  if (eager(framework)) {
    traffic.forward.bytes += 2 * e;
    traffic.forward.kernels += 1;
  }
  return traffic;
}

bool softmax_kernel_takes(std::int64_t matrices, std::int64_t keys) {
  constexpr std::int64_t kMatricesAtATime = 4, kMostKeys = 2048;
  return matrices % kMatricesAtATime == 0 && keys <= kMostKeys;
}

Traffic softmax_traffic(const Framework& framework, double e, bool one_kernel) {
  Traffic traffic{.forward = {2 * e, 1}, .backward = {3 * e, 1}};
  if (eager(framework) || !one_kernel) {
    // scale, mask, softmax; and to fp32 before it and back
    const int casts = framework.softmax_in_fp32 ? 2 : 0;
    const double s = framework.softmax_in_fp32 ? kFp32Bytes : e, cast = casts * (e + kFp32Bytes);
    traffic = {.forward = {4 * e + 2 * s + cast, 3 + casts},
               .backward = {4 * e + 3 * s + cast, 3 + casts}};
  }
  if (framework.dropout > 0.0) {
    traffic.forward.bytes += 2 * e + kMask;
    traffic.backward.bytes += 2 * e + kMask;
    traffic.forward.kernels += 1;
    traffic.backward.kernels += 1;
  }
  return traffic;
}

Traffic position_bias_traffic(const Framework& framework, double e) {
  return {.forward = {eager(framework) ? 3 * e : 2 * e, 1}, .backward = {0.0, 0}};
}

Traffic layout_traffic(const Framework& framework, double e) {
  if (!eager(framework)) return {};
  return {.forward = {2 * e, 2}, .backward = {2 * e, 2}};
}

Traffic router_traffic(const Framework& framework, double e) {
  if (!eager(framework))
    return {.forward = {e + 2 * kFp32Bytes, 3}, .backward = {e + 2 * kFp32Bytes, 2}};
  // cast up, softmax, top-k; zeros, gradient of the softmax, cast down
  return {.forward = {e + 4 * kFp32Bytes, 6}, .backward = {5 * kFp32Bytes + e, 4}};
}

Traffic permutation_traffic(double e) { return {.forward = {2 * e, 1}, .backward = {2 * e, 1}}; }

Traffic combination_traffic(const Framework& framework, double e, int top_k) {
  if (eager(framework)) return {.forward = {3 * e, top_k}, .backward = {6 * e, 3 * top_k}};
  return {.forward = {e + e / top_k, 1}, .backward = {2 * e + e / top_k, 1}};
}

Traffic weighted_bias_traffic(double e, int experts) {
  return {.forward = {24 + 2 * e, 2 * experts + 2}, .backward = {32 + 4 * e, 6 * experts + 2}};
}

Traffic cross_entropy_traffic(const Framework& framework, double e) {
  if (framework.fusion == ElementwiseFusion::Compiled) {
    return {.forward = {2 * e, 2}, .backward = {2 * e, 1}};
  }
  if (!framework.loss.fp32_logits && framework.loss.gradient_in_place)
    return {.forward = {2 * e, 3}, .backward = {2 * e, 2}};
  // log-softmax, gather; gradient of the gathered values, of the softmax
  if (!framework.loss.fp32_logits) return {.forward = {2 * e, 3}, .backward = {4 * e, 3}};
  // cast up, log-softmax, gather; gradient of the gathered values, of the softmax, cast down
  return {.forward = {e + 3 * kFp32Bytes, 4}, .backward = {5 * kFp32Bytes + e, 3}};
}

Traffic quantise_traffic(const Framework& framework, LowPrecisionScaling scaling, bool weight,
                         double n) {
  constexpr double kRead = 2.0;
  switch (scaling) {
    case LowPrecisionScaling::Delayed:
      return {.forward = {kRead + framework.low_precision.copies * n, 2}};
    case LowPrecisionScaling::Current:
      return {.forward = {2 * kRead + framework.low_precision.copies * n, 3}};
    case LowPrecisionScaling::RowwiseHighPrecisionGradient:
      if (!weight) return {.forward = {kRead + n, 1}};
      return {.forward = {3 * kRead + 2 * n, 3}};
    case LowPrecisionScaling::Rowwise: return {.forward = {3 * kRead + 2 * n, 3}};
    default: break;
  }
  const bool maxima = scaling == LowPrecisionScaling::Nvfp4,
             fused = framework.fusion == ElementwiseFusion::Fused;
  const double written = 2 * (n + scale_bytes(scaling, weight));
  Traffic traffic{.forward = {(fused ? kRead : 2 * kRead) + written, fused ? 1 : 2}};
  if (!fused) traffic.rate = 2.0 / (1.0 + 1.0 / framework.low_precision.row_cast_rate);
  if (!maxima) return traffic;
  traffic.forward.bytes += kRead;
  traffic.forward.kernels += 1;
  return traffic;
}

}  // namespace llmsim::sim
