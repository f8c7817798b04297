#include "sim/operators/linear.h"

#include "sim/operators/traffic.h"
#include "sim/strategy/adapters.h"

namespace llmsim::sim {
namespace {

LowPrecisionScaling scaling_of(const LinearContext& context) {
  return scaling_of(context.framework->low_precision, context.precision);
}

Operator quantise(const LinearContext& context, const char* label, double elements, bool weight) {
  const DType dtype = matmul_dtype(context.precision);
  const Traffic traffic =
      quantise_traffic(*context.framework, scaling_of(context), weight, size_of(dtype).value());
  Operator op = memory_bound(OperatorKind::Cast, label, elements, traffic.forward_bytes,
                             traffic.forward_kernels);
  op.dtype = dtype;
  op.rate = traffic.rate;
  return op;
}

// Reads and writes a 16-bit GEMM that was accumulated without its scales.
Operator scale_output(double elements) {
  return memory_bound(OperatorKind::Cast, "scale_output", elements, 4.0, 1);
}

// Casts around the three GEMMs of a low-precision linear layer; the weight once more where the
// backward pass gathers it again.
void add_casts(LayerOperators& linear, const LinearContext& context, double tokens, double out,
               double in, double weights) {
  linear.forward.push_back(quantise(context, "quantise_input", tokens * in, false));
  linear.backward.push_back(quantise(context, "quantise_gradient", tokens * out, false));
  if (!context.framework->low_precision.caches_weights) {
    linear.forward.push_back(quantise(context, "quantise_weight", weights, true));
    if (context.requantises_weights)
      linear.backward.push_back(quantise(context, "quantise_weight_again", weights, true));
  }
  const LowPrecisionScaling scaling = scaling_of(context);
  if (scaling == LowPrecisionScaling::Rowwise ||
      scaling == LowPrecisionScaling::RowwiseHighPrecisionGradient)
    linear.backward.push_back(scale_output(tokens * in));
  if (scaling == LowPrecisionScaling::Rowwise && !context.frozen)
    linear.backward.push_back(scale_output(weights));
}

// Autocast makes a 16-bit copy of fp32 weights in every forward pass, and fp32 gradients of the
// copy's.
Operator cast(const char* label, double elements) {
  return memory_bound(OperatorKind::Cast, label, elements, 6.0, 1);
}

void add_adapter(LayerOperators& linear, std::int64_t tokens, std::int64_t out, std::int64_t in,
                 std::int64_t rank) {
  const DType dtype = DType::Bf16;
  linear.forward.push_back(transposed(gemm("adapter_down", 1, tokens, rank, in, dtype, dtype)));
  linear.forward.push_back(transposed(gemm("adapter_up", 1, tokens, out, rank, dtype, dtype)));
  linear.backward.push_back(gemm("adapter_up_dgrad", 1, tokens, rank, out, dtype, dtype));
  linear.backward.push_back(gemm("adapter_down_dgrad", 1, tokens, in, rank, dtype, dtype));
  linear.backward.push_back(gemm("adapter_up_wgrad", 1, rank, out, tokens, dtype, dtype));
  linear.backward.push_back(gemm("adapter_down_wgrad", 1, in, rank, tokens, dtype, dtype));
}

// `busy` GEMMs of (rows_per_expert, k) by (k, n), of all rows together.
Operator grouped(const char* label, const ExpertRows& group, std::int64_t n, std::int64_t k,
                 DType dtype, DType out) {
  Operator op = gemm(label, group.busy, group.padded_rows_per_expert(), n, k, dtype, out);
  op.kernels = group.kernels();
  op.ragged = true;
  const double rows = static_cast<double>(group.rows), dn = static_cast<double>(n),
               dk = static_cast<double>(k);
  op.flops = 2.0 * rows * dn * dk * FLOP;
  const double padded = rows + static_cast<double>(group.padding());
  op.moved = (padded * dk + static_cast<double>(group.busy) * dk * dn) * size_of(dtype) +
             padded * dn * size_of(out);
  return op;
}

Operator grouped_weight_gradient(const char* label, const ExpertRows& group, std::int64_t m,
                                 std::int64_t n, DType dtype, DType out) {
  Operator op = gemm(label, group.busy, m, n, group.padded_rows_per_expert(), dtype, out);
  op.kernels = group.kernels();
  op.ragged = true;
  const double rows = static_cast<double>(group.rows), dm = static_cast<double>(m),
               dn = static_cast<double>(n);
  op.flops = 2.0 * rows * dm * dn * FLOP;
  const double padded = rows + static_cast<double>(group.padding());
  op.moved = padded * (dm + dn) * size_of(dtype) +
             static_cast<double>(group.busy) * dm * dn * size_of(out);
  return op;
}

DType weight_gradient_dtype(const LinearContext& context) {
  const DType dtype = matmul_dtype(context.precision);
  const bool wide = is_low_precision(dtype) &&
                    scaling_of(context) == LowPrecisionScaling::RowwiseHighPrecisionGradient;
  return wide ? activation_dtype(context.precision) : dtype;
}

DType accumulated_dtype(const LinearContext& context) {
  return context.framework->gradients.accumulated_by_gemm ? DType::Fp32
                                                          : activation_dtype(context.precision);
}

bool casts_weights(const LinearContext& context) {
  const DType wide = activation_dtype(context.precision);
  return context.framework->casts_weights_per_microbatch && size_of(wide) < size_of(DType::Fp32);
}

bool casts_again(const LinearContext& context) {
  return casts_weights(context) && context.framework->casts_weights_in_backward;
}

// A GEMM that adds to the gradient of its `weights` reads it too.
void add_weight_gradient(LayerOperators& linear, const LinearContext& context, Operator gemm,
                         double weights) {
  gemm.weight_gradient = true;
  if (context.framework->gradients.accumulated_by_gemm)
    gemm.moved += weights * size_of(accumulated_dtype(context));
  linear.backward.push_back(gemm);
  if (casts_weights(context)) linear.backward.push_back(cast("gradient_cast", weights));
}

}  // namespace

LayerOperators lower_linear(const LinearContext& context, const char* label, std::int64_t tokens,
                            std::int64_t out, std::int64_t in) {
  const DType dtype = matmul_dtype(context.precision), wide = activation_dtype(context.precision);
  const double weights = static_cast<double>(out) * static_cast<double>(in);
  LayerOperators linear;
  if (casts_weights(context)) linear.forward.push_back(cast("weight_cast", weights));
  if (is_low_precision(dtype)) {
    add_casts(linear, context, static_cast<double>(tokens), static_cast<double>(out),
              static_cast<double>(in), weights);
  }
  linear.forward.push_back(transposed(gemm(label, 1, tokens, out, in, dtype, wide)));
  if (casts_again(context)) linear.backward.push_back(cast("weight_cast", weights));
  linear.backward.push_back(gemm(label, 1, tokens, in, out, dtype, wide));
  if (context.frozen || context.adapters) return linear;
  add_weight_gradient(
      linear, context,
      gemm(label, 1, in, out, tokens, weight_gradient_dtype(context), accumulated_dtype(context)),
      weights);
  return linear;
}

LayerOperators lower_linear(const LinearContext& context, const LayerWeight& weight,
                            std::int64_t tokens) {
  LayerOperators linear =
      lower_linear(context, name_of(weight.name), tokens, weight.columns, weight.rows);
  add_adapters(linear, context, weight, tokens);
  return linear;
}

void add_adapters(LayerOperators& linear, const LinearContext& context, const LayerWeight& weight,
                  std::int64_t tokens) {
  if (!context.adapters) return;
  for (const std::int64_t columns : adapted_columns(context.adapters->layers, weight))
    add_adapter(linear, tokens, columns, weight.rows, context.adapters->rank);
}

LayerOperators lower_expert_linear(const LinearContext& context, const LayerWeight& weight,
                                   const ExpertRows& rows) {
  const char* label = name_of(weight.name);
  const std::int64_t out = weight.columns, in = weight.rows;
  const DType dtype = matmul_dtype(context.precision), wide = activation_dtype(context.precision);
  ExpertRows group = rows;
  if (is_low_precision(dtype)) group.multiple = row_multiple(scaling_of(context));
  const double weights =
      static_cast<double>(group.experts) * static_cast<double>(out) * static_cast<double>(in);
  LayerOperators linear;
  if (casts_weights(context)) linear.forward.push_back(cast("weight_cast", weights));
  if (is_low_precision(dtype)) {
    add_casts(linear, context, static_cast<double>(group.rows + group.padding()),
              static_cast<double>(out), static_cast<double>(in), weights);
    for (OperatorList* pass : {&linear.forward, &linear.backward}) {
      for (Operator& op : *pass) op.kernels *= group.kernels();
    }
  }
  linear.forward.push_back(transposed(grouped(label, group, out, in, dtype, wide)));
  if (casts_again(context)) linear.backward.push_back(cast("weight_cast", weights));
  linear.backward.push_back(grouped(label, group, in, out, dtype, wide));
  if (context.frozen) return linear;
  const DType accumulated = accumulated_dtype(context);
  add_weight_gradient(
      linear, context,
      grouped_weight_gradient(label, group, in, out, weight_gradient_dtype(context), accumulated),
      weights);
  return linear;
}

double linear_input_bytes(const LinearContext& context) {
  const DType low_precision = matmul_dtype(context.precision);
  const bool fp32_gradient =
      scaling_of(context) == LowPrecisionScaling::RowwiseHighPrecisionGradient;
  if (is_low_precision(low_precision) && context.framework->low_precision.saves_inputs &&
      !fp32_gradient)
    return low_precision_bytes(context.framework->low_precision, context.precision, false);
  return size_of(activation_dtype(context.precision)).value();
}

}  // namespace llmsim::sim
