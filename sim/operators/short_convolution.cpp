#include "sim/operators/short_convolution.h"

#include "sim/operators/scan.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// The product of two values of a channel.
TensorId gated(LayerBuilder& b, const char* label, TensorId gates, TensorId values,
               const char* name) {
  const TensorId product = b.values(name, b.rows(WeightName::MixerOutput));
  Node& node =
      b.layer.add(Module::Scan, elementwise(OperatorKind::Activation, label,
                                            b.tokens * b.rows(WeightName::MixerOutput),
                                            activation_traffic(true, b.framework, b.element)));
  node.reads(gates).writes(product).saves(gates);
  if (values != gates) node.reads(values).saves(values);
  return product;
}

}  // namespace

TensorId add_short_convolution_mixer(LayerBuilder& b, TensorId normed, bool alone) {
  const TensorId projected = b.mixer_input(b.linear_of(WeightName::MixerInput), normed);
  const TensorId product = gated(b, "input_gate", projected, projected, "gated channels");
  const TensorId convolved = b.values("convolved channels", b.rows(WeightName::MixerOutput));
  b.layer.add(Module::Scan, convolution(b.tokens * b.rows(WeightName::MixerOutput), b.element))
      .reads(product)
      .writes(convolved)
      .saves(product);
  return b.mixer_output(gated(b, "output_gate", projected, convolved, "gated output"), alone);
}

}  // namespace llmsim::sim
