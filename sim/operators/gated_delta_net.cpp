#include "sim/operators/gated_delta_net.h"

#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// Norms of q and k, sums of the decay, K K^T, its inverse, T K and T V, states, output.  Backward:
// T K and T V, states, gradients of values, of states, of q and k, of T K, of the decay and of the
// norms.
constexpr int kDeltaKernels = 8, kDeltaBackwardKernels = 10;

LayerOperators delta_rule_operators(const LayerBuilder& b, const GatedDeltaNet& net) {
  const double e = b.element, heads = b.tokens * net.num_value_heads / b.ranks;
  const ScanBytes bytes = scan_bytes(net, e);
  const Flops flops = b.tokens / b.ranks * scan_flops_per_token(net);
  LayerOperators operators = convolution(b.tokens * net.conv_channels() / b.ranks, e);
  if (net.num_value_heads > net.num_key_heads)
    operators.append(elementwise(OperatorKind::Copy, "repeat_heads", 2.0 * heads * net.key_head_dim,
                                 permutation_traffic(e)));
  return operators.append(
      {.forward = {memory_bound(OperatorKind::Scan, "delta_rule", heads, bytes.forward,
                                kDeltaKernels, flops)},
       .backward = {memory_bound(OperatorKind::Scan, "delta_rule_backward", heads, bytes.backward,
                                 kDeltaBackwardKernels, 2.0 * flops)}});
}

// q, k, v of all heads go into the delta rule, which saves them as it has normalised and repeated
// them; the convolution saves what it reads.
TensorId add_delta_rule(LayerBuilder& b, const GatedDeltaNet& net, TensorId projected) {
  const double e = b.element, heads = b.tokens * net.num_value_heads / b.ranks;
  const ScanBytes bytes = scan_bytes(net, e);
  const TensorId output = b.values("delta rule output", b.rows(WeightName::MixerOutput)),
                 saved = b.tensor(
                     "q, k, v, T and decay of the delta rule",
                     {b.tokens, net.num_value_heads / b.ranks, saved_by_delta_rule(net, e)},
                     TensorRole::Statistic);
  b.layer.add(Module::Scan, delta_rule_operators(b, net))
      .reads(projected)
      .writes(output, saved)
      .saves(projected, saved)
      .forward_workspace(Bytes(heads * bytes.forward_workspace))
      .backward_workspace(Bytes(heads * bytes.backward_workspace));
  return output;
}

// What the delta rule reads, of all tokens and a rank's heads: q, k, v, z and both gates in one
// exchange, for which their columns are put into the order of the ranks.
TensorId exchange_inputs(LayerBuilder& b, const GatedDeltaNet& net, TensorId projected) {
  if (b.strategy.cp == 1) return projected;
  const double columns = b.columns(WeightName::MixerInput),
               width = columns + 2.0 * net.num_value_heads / b.ranks;
  const TensorId ordered = b.values("mixer input in the order of ranks", columns);
  b.layer
      .add(Module::Scan, elementwise(OperatorKind::Copy, "head_order", b.tokens * width,
                                     permutation_traffic(b.element)))
      .reads(projected)
      .writes(ordered);
  return exchange_heads(b, "mixer input of all tokens", ordered, columns, {width});
}

// Decays of channels and the gate of the output, each from a bottleneck that every tensor rank
// has whole.
void add_bottlenecks(LayerBuilder& b, TensorId normed) {
  const LayerWeight down = b.weights[WeightName::GateDown];
  const TensorId narrow = b.values("bottlenecks of gates", real(down.columns)),
                 gates = b.values("decays and output gate", b.columns(WeightName::GateUp));
  b.gemm({Module::MixerInput, down, lower_linear(b.linear, down, b.num_tokens)}, normed, {narrow},
         normed);
  b.gemm(b.linear_layer(Module::MixerInput, WeightName::GateUp), narrow, {gates}, narrow);
  b.layer.add(Module::Scan).reads(gates).saves(gates);
}

}  // namespace

ScanBytes scan_bytes(const GatedDeltaNet& net, double element) {
  const double e = element, keys = net.key_head_dim, values = net.value_head_dim,
               chunk = net.chunk_size, states = keys * values / chunk;
  const double decays = net.gate_rank ? keys : 0.0;
  return {.forward = (11.0 * keys + 6.0 * values) * e + 2.0 * e * states + (8.0 + 2.0 * e) * chunk +
                     (e + 4.0 * kFp32Bytes) * decays,
          .backward = (27.0 * keys + 15.0 * values) * e + 4.0 * e * states + 2.0 * e * chunk +
                      (e + 5.0 * kFp32Bytes) * decays,
          .forward_workspace = (keys + 2.0 * values) * e + e * states + kFp32Bytes * chunk,
          .backward_workspace = (3.0 * keys + 3.0 * values) * e + 2.0 * e * states};
}

double saved_by_delta_rule(const GatedDeltaNet& net, double element) {
  const double decays = net.gate_rank ? net.key_head_dim : 1.0;
  return (2.0 * net.key_head_dim + net.value_head_dim + net.chunk_size) * element +
         kFp32Bytes * decays;
}

// The gate z is among what the first GEMM gives; the second one's values are few.  The norm of each
// head and the gate are kernels after the delta rule.
TensorId add_gated_delta_net_mixer(LayerBuilder& b, TensorId normed, bool alone) {
  LayerOperators inputs = b.linear_of(WeightName::MixerInput);
  const TensorId projected =
      b.mixer_input(inputs.append(b.linear_of(WeightName::MixerGates)), normed);
  if (b.model.gated_delta_net->gate_rank) add_bottlenecks(b, normed);
  const GatedDeltaNet& net = *b.model.gated_delta_net;
  const TensorId output = add_delta_rule(b, net, exchange_inputs(b, net, projected)),
                 gated = add_gated_norm(b, "gated_norm", output, false);
  const double width = b.rows(WeightName::MixerOutput);
  return b.mixer_output(exchange_heads(b, "mixer output of own tokens", gated, width, {width}),
                        alone);
}

}  // namespace llmsim::sim
