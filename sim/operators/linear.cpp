#include "sim/operators/linear.h"

#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

NarrowScaling scaling_of(const LinearContext& context) {
  const bool blocks = context.precision == Precision::Mxfp8 || context.precision == Precision::Nvfp4;
  return blocks ? NarrowScaling::Blocks : context.stack->narrow.scaling;
}

Operator quantise(const LinearContext& context, const char* label, double elements, bool weight) {
  const DType dtype = matmul_dtype(context.precision);
  const Traffic traffic = quantise_traffic(*context.stack, scaling_of(context), weight, size_of(dtype).value());
  Operator op = streaming(OperatorKind::Cast, label, elements, traffic.forward_bytes, traffic.forward_kernels);
  op.dtype = dtype;
  op.rate = traffic.rate;
  return op;
}

// Reads and writes a 16-bit product that was accumulated without its scales.
Operator scale_output(double elements) { return streaming(OperatorKind::Cast, "scale_output", elements, 4.0, 1); }

// Casts around the three products of a narrow linear layer; the weight once more where the backward pass gathers it again.
void add_casts(LinearOperators& linear, const LinearContext& context, double tokens, double out, double in) {
  linear.forward.push_back(quantise(context, "quantise_input", tokens * in, false));
  linear.backward.push_back(quantise(context, "quantise_gradient", tokens * out, false));
  if (!context.stack->narrow.caches_weights) {
    linear.forward.push_back(quantise(context, "quantise_weight", out * in, true));
    if (context.requantises_weights) linear.backward.push_back(quantise(context, "quantise_weight_again", out * in, true));
  }
  const NarrowScaling scaling = scaling_of(context);
  if (scaling == NarrowScaling::Rowwise || scaling == NarrowScaling::RowwiseWideGradient)
    linear.backward.push_back(scale_output(tokens * in));
  if (scaling == NarrowScaling::Rowwise && !context.frozen) linear.backward.push_back(scale_output(out * in));
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
  if (is_narrow(dtype))
    add_casts(linear, context, static_cast<double>(tokens), static_cast<double>(out), static_cast<double>(in));
  linear.forward.push_back(gemm(label, 1, tokens, out, in, dtype, wide));
  linear.backward.push_back(gemm(label, 1, tokens, in, out, dtype, wide));
  if (context.frozen) return linear;
  if (context.adapters) {
    add_adapter(linear, tokens, out, in, context.adapters->rank);
  } else {
    const DType accumulated = context.stack->gradients.accumulated_by_product ? DType::Fp32 : wide;
    const bool wide_gradient = is_narrow(dtype) && scaling_of(context) == NarrowScaling::RowwiseWideGradient;
    Operator wgrad = gemm(label, 1, in, out, tokens, wide_gradient ? wide : dtype, accumulated);
    wgrad.weight_gradient = true;
    linear.backward.push_back(wgrad);
    if (casts) linear.backward.push_back(cast("gradient_cast", weights));
  }
  return linear;
}

double linear_input_bytes(const LinearContext& context) {
  const DType narrow = matmul_dtype(context.precision);
  const bool wide_gradient = scaling_of(context) == NarrowScaling::RowwiseWideGradient;
  if (is_narrow(narrow) && context.stack->narrow.saves_inputs && !wide_gradient) return size_of(narrow).value();
  return size_of(activation_dtype(context.precision)).value();
}

}  // namespace llmsim::sim
