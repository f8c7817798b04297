#include "sim/operators/linear.h"

namespace llmsim::sim {
namespace {

// Reads a 16-bit tensor and writes its narrow copy and the transpose that the other products need.
Operator quantise(const char* label, double elements, DType dtype) {
  Operator op = streaming(OperatorKind::Cast, label, elements, 2.0 + 2.0 * size_of(dtype).value(), 2);
  op.dtype = dtype;
  return op;
}

// Autocast makes a 16-bit copy of fp32 weights in every forward pass, and fp32 gradients of the copy's.
Operator cast(const char* label, double elements) { return streaming(OperatorKind::Cast, label, elements, 6.0, 1); }

void add_adapter(LinearOperators& linear, std::int64_t tokens, std::int64_t out, std::int64_t in, std::int64_t rank) {
  const DType dtype = DType::Bf16;
  linear.forward.push_back(gemm("adapter_down", 1, tokens, rank, in, dtype, dtype));
  linear.forward.push_back(gemm("adapter_up", 1, tokens, out, rank, dtype, dtype));
  linear.backward.push_back(gemm("adapter_up_dgrad", 1, tokens, rank, out, dtype, dtype));
  linear.backward.push_back(gemm("adapter_down_dgrad", 1, tokens, in, rank, dtype, dtype));
  linear.backward.push_back(gemm("adapter_up_wgrad", 1, rank, out, tokens, dtype, dtype));
  linear.backward.push_back(gemm("adapter_down_wgrad", 1, in, rank, tokens, dtype, dtype));
}

}  // namespace

LinearOperators lower_linear(const LinearContext& context, const char* label, std::int64_t tokens, std::int64_t out,
                             std::int64_t in) {
  const DType dtype = matmul_dtype(context.precision), wide = activation_dtype(context.precision);
  const double weights = static_cast<double>(out) * static_cast<double>(in);
  LinearOperators linear;
  const bool casts = context.stack->casts_weights_per_microbatch && size_of(wide) < size_of(DType::Fp32);
  if (casts) linear.forward.push_back(cast("weight_cast", weights));
  if (is_narrow(dtype)) {
    linear.forward.push_back(quantise("quantise_input", static_cast<double>(tokens * in), dtype));
    if (!context.stack->caches_narrow_weights) linear.forward.push_back(quantise("quantise_weight", weights, dtype));
    linear.backward.push_back(quantise("quantise_gradient", static_cast<double>(tokens * out), dtype));
  }
  linear.forward.push_back(gemm(label, 1, tokens, out, in, dtype, wide));
  linear.backward.push_back(gemm(label, 1, tokens, in, out, dtype, wide));
  if (context.frozen) return linear;
  if (context.adapters) {
    add_adapter(linear, tokens, out, in, context.adapters->rank);
  } else {
    const DType accumulated = context.stack->gradient_accumulation_in_backward ? DType::Fp32 : wide;
    Operator wgrad = gemm(label, 1, in, out, tokens, dtype, accumulated);
    wgrad.weight_gradient = true;
    linear.backward.push_back(wgrad);
    if (casts) linear.backward.push_back(cast("gradient_cast", weights));
  }
  return linear;
}

double linear_input_bytes(const LinearContext& context) {
  const DType narrow = matmul_dtype(context.precision);
  if (is_narrow(narrow) && context.stack->saves_narrow_inputs) return size_of(narrow).value();
  return size_of(activation_dtype(context.precision)).value();
}

}  // namespace llmsim::sim
