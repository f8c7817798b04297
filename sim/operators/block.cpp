#include "sim/operators/block.h"

#include <utility>

#include "sim/model/parameters.h"
#include "sim/operators/attention.h"
#include "sim/operators/experts.h"
#include "sim/operators/gated_delta_net.h"
#include "sim/operators/layer_builder.h"
#include "sim/operators/lightning_attention.h"
#include "sim/operators/mamba1.h"
#include "sim/operators/mamba2.h"
#include "sim/operators/mlp.h"
#include "sim/operators/recomputation.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// A policy may save what a GEMM returns, and under autocast it has another format: the residual
// stream goes on in another tensor.
TensorId copied(LayerBuilder& b, TensorId output) {
  const TensorId sum = b.tensor("residual stream", b.residual());
  b.layer.add(Module::Residual).writes(sum);
  b.layer.add_in_place(output, sum);
  return sum;
}

// Dropout and the sum with the residual stream, which it gives.
TensorId add_residual(LayerBuilder& b, const char* label, TensorId stream, TensorId output) {
  if (b.framework.dropout > 0.0)
    b.save_extra(Module::Residual, "dropout mask",
                 {b.own_tokens(), real(b.model.hidden_size), 1.0});
  if (b.strategy.recompute.kind == RecomputeKind::Op || b.autocasts()) output = copied(b, output);
  b.layer.add_in_place(stream, output,
                       elementwise(OperatorKind::Residual, label, b.residual_elements(),
                                   residual_traffic(b.framework, b.element)));
  return output;
}

TensorId post_norm(LayerBuilder& b, const char* label, TensorId output) {
  return b.model.norms_per_layer >= 4 ? b.norm(label, output) : output;
}

TensorId attention_half(LayerBuilder& b, LayerKind kind, TensorId stream) {
  const TensorId partial =
      add_attention(b, b.norm("attention_norm", stream), kind.mlp == LayerMlp::None);
  const TensorId output =
      post_norm(b, "post_attention_norm", b.reduce(Module::AttentionOutput, partial));
  return add_residual(b, "attention_residual", stream, output);
}

// Attention, or what mixes tokens in its place.
TensorId mixing_half(LayerBuilder& b, LayerKind kind, TensorId stream) {
  const bool alone = kind.mlp == LayerMlp::None;
  const auto half = [&](TensorId (*mixer)(LayerBuilder&, TensorId, bool)) {
    const TensorId output = mixer(b, b.norm("mixer_norm", stream), alone);
    return add_residual(b, "mixer_residual", stream, post_norm(b, "post_mixer_norm", output));
  };
  switch (kind.mixer) {
    case Mixer::Mamba2: return half(add_mamba2_mixer);
    case Mixer::GatedDeltaNet: return half(add_gated_delta_net_mixer);
    case Mixer::Mamba1: return half(add_mamba1_mixer);
    case Mixer::LightningAttention: return half(add_lightning_attention_mixer);
    default: return attention_half(b, kind, stream);
  }
}

// The sum over tensor ranks of an MLP's output; experts that route shards have it already.
TensorId reduce_output(LayerBuilder& b, LayerKind kind, TensorId output) {
  if (!kind.has_experts()) return b.reduce(Module::MlpDown, output);
  return routes_shards(b.strategy, b.framework) ? output : b.reduce(Module::Combine, output);
}

TensorId mlp_of(LayerBuilder& b, LayerKind kind, TensorId normed) {
  return kind.has_experts() ? add_experts(b, normed) : add_mlp(b, normed);
}

TensorId mlp_half(LayerBuilder& b, LayerKind kind, TensorId stream) {
  const TensorId output = reduce_output(b, kind, mlp_of(b, kind, b.norm("mlp_norm", stream)));
  return add_residual(b, "mlp_residual", stream, post_norm(b, "post_mlp_norm", output));
}

// Attention and MLP read one norm or two; their partial sums are added before the one reduction
// that both share.
TensorId parallel_block(LayerBuilder& b, LayerKind kind, TensorId input) {
  const TensorId attention_norm = b.norm("attention_norm", input);
  const TensorId attended = add_attention(b, attention_norm, false);
  b.layer.begin_second_half();
  const TensorId normed = b.model.norms_per_layer >= 2 ? b.norm("mlp_norm", input) : attention_norm;
  const TensorId output = mlp_of(b, kind, normed);
  LayerOperators sum;
  sum.forward = {memory_bound(OperatorKind::Residual, "parallel_sum",
                              b.tokens * b.model.hidden_size, 3 * b.element, 1)};
  b.layer.add_in_place(attended, output, std::move(sum));
  return add_residual(b, "mlp_residual", input,
                      post_norm(b, "post_mlp_norm", reduce_output(b, kind, output)));
}

TensorId add_halves(LayerBuilder& b, LayerKind kind, TensorId stream) {
  if (b.model.parallel_block) return parallel_block(b, kind, stream);
  if (kind.mixer != Mixer::None) stream = mixing_half(b, kind, stream);
  b.layer.begin_second_half();
  return kind.mlp == LayerMlp::None ? stream : mlp_half(b, kind, stream);
}

}  // namespace

LayerGraph lower_block(const Transformer& model, const Strategy& strategy,
                       const Framework& framework, RecomputeKind recompute, LayerKind kind) {
  LayerBuilder b(model, strategy, framework, layer_weights(model, kind, strategy.tp));
  const TensorId input = b.tensor("block input", b.residual());
  b.layer.set_input(input);
  b.layer.set_output(add_halves(b, kind, input));
  b.layer.finish();
  Recompute chosen = strategy.recompute;
  chosen.kind = recompute;
  b.layer.recompute = recomputed_operators(b.layer, chosen, model, framework, kind,
                                           activation_dtype(strategy.precision));
  return std::move(b.layer);
}

}  // namespace llmsim::sim
