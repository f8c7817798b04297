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
  Operator op = memory_bound(OperatorKind::Cast, label, elements, traffic.forward.bytes,
                             traffic.forward.kernels);
  op.dtype = dtype;
  op.rate = traffic.rate;
  return op;
}

// Reads and writes a 16-bit GEMM that was accumulated without its scales.
Operator scale_output(double elements) {
  return memory_bound(OperatorKind::Cast, "scale_output", elements, 4.0, 1);
}

// Autocast makes a 16-bit copy of fp32 weights in every forward pass, and fp32 gradients of the
// copy's.
Operator cast(const char* label, double elements) {
  return memory_bound(OperatorKind::Cast, label, elements, 6.0, 1);
}

// Of weights of 4 bits.
Operator dequantise(double elements) {
  return memory_bound(OperatorKind::Cast, "dequantise_weight", elements, 0.5 + 4.0 / 64.0 + 2.0, 1);
}

// The head, which has no adapters, stays in 16 bits.
bool dequantises(const LinearContext& context) {
  const bool packed = context.precision == Precision::Nf4 || context.precision == Precision::Int4;
  return packed && context.adapters;
}

void add_adapter(LayerOperators& linear, std::int64_t tokens, std::int64_t out, std::int64_t in,
                 std::int64_t rank, DType dtype) {
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
  const double rows = real(group.rows), dn = real(n), dk = real(k);
  op.flops = 2.0 * rows * dn * dk * FLOP;
  const double padded = rows + real(group.padding());
  op.moved =
      (padded * dk + real(group.busy) * dk * dn) * size_of(dtype) + padded * dn * size_of(out);
  return op;
}

Operator grouped_weight_gradient(const char* label, const ExpertRows& group, std::int64_t m,
                                 std::int64_t n, DType dtype, DType out) {
  Operator op = gemm(label, group.busy, m, n, group.padded_rows_per_expert(), dtype, out);
  op.kernels = group.kernels();
  op.ragged = true;
  const double rows = real(group.rows), dm = real(m), dn = real(n);
  op.flops = 2.0 * rows * dm * dn * FLOP;
  const double padded = rows + real(group.padding());
  op.moved = padded * (dm + dn) * size_of(dtype) + real(group.busy) * dm * dn * size_of(out);
  return op;
}

DType weight_gradient_dtype(const LinearContext& context) {
  const DType dtype = matmul_dtype(context.precision);
  const bool in_16_bits = is_low_precision(dtype) &&
                          scaling_of(context) == LowPrecisionScaling::RowwiseHighPrecisionGradient;
  return in_16_bits ? activation_dtype(context.precision) : dtype;
}

DType accumulated_dtype(const LinearContext& context) {
  return context.framework->gradients.accumulated_by_gemm ? DType::Fp32
                                                          : activation_dtype(context.precision);
}

bool casts_weights(const LinearContext& context) {
  const DType activations = activation_dtype(context.precision);
  return context.framework->casts_weights_per_microbatch &&
         size_of(activations) < size_of(DType::Fp32);
}

// A linear layer's GEMMs, and the values that casts around them read and write.
struct Linear {
  Operator forward, data_gradient, weight_gradient;
  double inputs = 0.0, outputs = 0.0, weights = 0.0;
  int casts = 1;  // matrices that are cast one by one
};

// One for each matrix.
Operator repeated(Operator cast, const Linear& linear) {
  cast.kernels *= linear.casts;
  return cast;
}

// Before the GEMMs of a low-precision linear layer; the weight once more where the backward pass
// gathers it again.
void add_quantisation(LayerOperators& operators, const LinearContext& context,
                      const Linear& linear) {
  const auto add = [&](OperatorList& pass, const char* label, double values, bool weight) {
    pass.push_back(repeated(quantise(context, label, values, weight), linear));
  };
  add(operators.forward, "quantise_input", linear.inputs, false);
  add(operators.backward, "quantise_gradient", linear.outputs, false);
  if (context.framework->low_precision.caches_weights) return;
  add(operators.forward, "quantise_weight", linear.weights, true);
  if (context.requantises_weights)
    add(operators.backward, "quantise_weight_again", linear.weights, true);
}

// A GEMM that adds to the gradient reads it too.
void add_weight_gradient(OperatorList& backward, const LinearContext& context,
                         const Linear& linear) {
  Operator gemm = linear.weight_gradient;
  gemm.weight_gradient = true;
  if (context.framework->gradients.accumulated_by_gemm)
    gemm.moved += linear.weights * size_of(accumulated_dtype(context));
  backward.push_back(gemm);
}

LayerOperators in_order(const LinearContext& context, const Linear& linear, bool trained) {
  const bool low_precision = is_low_precision(matmul_dtype(context.precision));
  // Which GEMMs of the backward pass leave their scales to a kernel of their own: by rows all, but
  // weight gradients in 16 bits.
  const LowPrecisionScaling scaling = scaling_of(context);
  const bool scales_both = low_precision && scaling == LowPrecisionScaling::Rowwise;
  const bool scales_data =
      scales_both ||
      (low_precision && scaling == LowPrecisionScaling::RowwiseHighPrecisionGradient);
  LayerOperators operators;
  OperatorList &forward = operators.forward, &backward = operators.backward;
  if (casts_weights(context)) forward.push_back(cast("weight_cast", linear.weights));
  if (casts_weights(context) && context.framework->casts_weights_in_backward)
    backward.push_back(cast("weight_cast", linear.weights));
  if (dequantises(context)) {
    forward.push_back(repeated(dequantise(linear.weights), linear));
    backward.push_back(repeated(dequantise(linear.weights), linear));
  }
  if (low_precision) add_quantisation(operators, context, linear);
  forward.push_back(transposed(linear.forward));
  backward.push_back(linear.data_gradient);
  if (scales_data) backward.push_back(repeated(scale_output(linear.inputs), linear));
  if (!trained) return operators;
  add_weight_gradient(backward, context, linear);
  if (scales_both) backward.push_back(repeated(scale_output(linear.weights), linear));
  if (casts_weights(context)) backward.push_back(cast("gradient_cast", linear.weights));
  return operators;
}

}  // namespace

LayerOperators lower_linear(const LinearContext& context, const char* label, std::int64_t tokens,
                            std::int64_t out, std::int64_t in) {
  const DType dtype = matmul_dtype(context.precision),
              activations = activation_dtype(context.precision);
  const double rows = real(tokens), columns = real(out), inner = real(in);
  return in_order(
      context,
      {.forward = gemm(label, 1, tokens, out, in, dtype, activations),
       .data_gradient = gemm(label, 1, tokens, in, out, dtype, activations),
       .weight_gradient = gemm(label, 1, in, out, tokens, weight_gradient_dtype(context),
                               accumulated_dtype(context)),
       .inputs = rows * inner,
       .outputs = rows * columns,
       .weights = columns * inner},
      !context.frozen && !context.adapters);
}

LayerOperators lower_linear(const LinearContext& context, const LayerWeight& weight,
                            std::int64_t tokens) {
  LayerOperators linear =
      lower_linear(context, name_of(weight.name), tokens, weight.columns, weight.rows);
  add_bias_gradient(linear, context, weight, tokens);
  add_adapters(linear, context, weight, tokens);
  return linear;
}

void add_bias_gradient(LayerOperators& linear, const LinearContext& context,
                       const LayerWeight& weight, std::int64_t tokens) {
  if (weight.biases == 0 || context.framework->gradients.fused_bias) return;
  if (context.frozen || context.adapters) return;
  const double outputs = real(tokens) * real(weight.columns);
  linear.backward.push_back(memory_bound(OperatorKind::BiasGradient, "bias_gradient", outputs,
                                         size_of(activation_dtype(context.precision)).value(), 1));
}

void add_adapters(LayerOperators& linear, const LinearContext& context, const LayerWeight& weight,
                  std::int64_t tokens) {
  if (!context.adapters) return;
  for (const std::int64_t columns : adapted_columns(context.adapters->layers, weight))
    add_adapter(linear, tokens, columns, weight.rows, context.adapters->rank,
                high_precision_matmul_dtype(context.precision));
}

LayerOperators lower_expert_linear(const LinearContext& context, const LayerWeight& weight,
                                   const ExpertRows& rows) {
  const char* label = name_of(weight.name);
  const std::int64_t out = weight.columns, in = weight.rows;
  const DType dtype = matmul_dtype(context.precision),
              activations = activation_dtype(context.precision);
  ExpertRows group = rows;
  if (is_low_precision(dtype)) group.multiple = row_multiple(scaling_of(context));
  const double padded = real(group.rows + group.padding()), columns = real(out), inner = real(in);
  LayerOperators linear = in_order(
      context,
      {.forward = grouped(label, group, out, in, dtype, activations),
       .data_gradient = grouped(label, group, in, out, dtype, activations),
       .weight_gradient = grouped_weight_gradient(
           label, group, in, out, weight_gradient_dtype(context), accumulated_dtype(context)),
       .inputs = padded * inner,
       .outputs = padded * columns,
       .weights = real(group.experts) * columns * inner,
       .casts = group.kernels()},
      !context.frozen);
  add_bias_gradient(linear, context, weight, rows.rows);
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
