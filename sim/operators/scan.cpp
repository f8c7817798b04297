#include "sim/operators/scan.h"

#include "sim/operators/traffic.h"

namespace llmsim::sim {

LayerOperators convolution(double elements, double element) {
  return {
      .forward = {memory_bound(OperatorKind::Convolution, "conv1d", elements, 2.0 * element, 1)},
      .backward = {
          memory_bound(OperatorKind::Convolution, "conv1d_backward", elements, 3.0 * element, 1)}};
}

TensorId exchange_heads(LayerBuilder& b, const char* name, TensorId x, double columns,
                        std::initializer_list<double> widths) {
  if (b.strategy.cp == 1) return x;
  LayerOperators exchange;
  for (const double width : widths) {
    const Operator one = collective("context_heads", CollectiveKind::AllToAll, GroupKind::Context,
                                    Bytes(b.tokens * width * b.element));
    exchange.forward.push_back(one), exchange.backward.push_back(one);
  }
  if (b.strategy.cp_balanced)
    exchange.append(elementwise(OperatorKind::Copy, "context_order", b.tokens * columns,
                                permutation_traffic(b.element)));
  const TensorId whole = b.values(name, columns);
  b.layer.add(Module::Scan, std::move(exchange)).reads(x).writes(whole);
  return whole;
}

TensorId add_gated_norm(LayerBuilder& b, const char* label, TensorId output,
                        bool saves_deviations) {
  const TensorShape shape = b.layer[output].shape;
  const double values = shape.rows * shape.columns;
  const TensorId normalised = b.tensor("normalised heads", shape),
                 gated = b.tensor("gated output", shape);
  Node& norm = b.layer.add(Module::MixerNorm,
                           elementwise(OperatorKind::Norm, label, values,
                                       norm_traffic(Norm::RmsNorm, b.framework, b.element)));
  norm.reads(output).writes(normalised).saves(output);
  if (saves_deviations) {
    const TensorId deviations =
        b.tensor("norm statistics", {b.tokens, 1.0, kFp32Bytes}, TensorRole::Statistic);
    norm.writes(deviations).saves(deviations);
  }
  b.layer
      .add(Module::MixerNorm, elementwise(OperatorKind::Activation, "output_gate", values,
                                          activation_traffic(true, b.framework, b.element)))
      .reads(normalised)
      .writes(gated)
      .saves(normalised);
  return gated;
}

}  // namespace llmsim::sim
