#include "sim/operators/mlp.h"

#include "sim/operators/attention.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// In a parallel block the attention has gathered the input, and may have multiplied it.
LayerBuilder::Linear up_of(const LayerBuilder& b) {
  LayerBuilder::Linear up = b.linear_layer(Module::MlpUp, WeightName::MlpUp);
  if (fuses_inputs(b.model, b.framework)) up.operators = {};
  return up;
}

}  // namespace

TensorId add_mlp(LayerBuilder& b, TensorId normed) {
  const double f = b.rows(WeightName::MlpDown);
  const TensorId gate = b.model.gated_mlp ? b.values("gate", f) : kNoTensor, up = b.values("up", f),
                 inner = b.values("activation output", f);
  b.column_gemm(up_of(b), b.model.parallel_block ? SharedInput{} : b.shared_residual(Module::MlpUp),
                normed, {gate, up}, b.saves_input(WeightName::MlpUp));
  if (b.model.gated_mlp && b.eager())
    b.save_extra(Module::Activation, "silu(gate)", b.layer[up].shape);
  if (!b.model.gated_mlp && b.eager() && b.framework.composed_activation)
    b.save_extra(Module::Activation, "parts of GELU",
                 {b.tokens, kComposedGeluSaves * f, b.element});
  b.activation(Module::MlpUp, Module::Activation, gate, up, inner,
               elementwise(OperatorKind::Activation, "activation", b.tokens * f,
                           activation_traffic(b.model.gated_mlp, b.framework, b.element)));
  if (b.adapts(WeightName::MlpDown)) b.save_adapter_dropout(b.tokens, f);
  b.layer.end_of_needed();
  return b.row_gemm("stream after the MLP", b.linear_layer(Module::MlpDown, WeightName::MlpDown),
                    inner, b.saves_input(WeightName::MlpDown));
}

}  // namespace llmsim::sim
