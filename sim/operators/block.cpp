#include "sim/operators/block.h"

#include <cmath>
#include <optional>
#include <utility>

#include "sim/model/parameters.h"
#include "sim/operators/attention.h"
#include "sim/operators/experts.h"
#include "sim/operators/gated_delta_net.h"
#include "sim/operators/layer_builder.h"
#include "sim/operators/lightning_attention.h"
#include "sim/operators/mamba1.h"
#include "sim/operators/mamba2.h"
#include "sim/operators/recomputation.h"
#include "sim/operators/short_convolution.h"
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

// What a half of a layer reads: the residual stream, or the sum of several with weights made of
// them, and how it is added to them.  The product that makes the weights is a GEMM, the rest is
// elementwise; the weights are few.
TensorId collapsed(LayerBuilder& b, TensorId streams) {
  if (!weighs_streams(b.model)) return streams;
  LayerWeight weights = b.weights[WeightName::StreamWeights];
  weights.count = weights.visited = 1;
  const double values = b.own_tokens() * stream_size(b.model);
  const TensorId sum = b.tensor("sum of streams", b.residual());
  LayerOperators operators = elementwise(OperatorKind::Norm, "stream_norm", values,
                                         norm_traffic(Norm::RmsNorm, b.framework, b.element));
  operators.append(lower_linear(b.linear, weights, static_cast<std::int64_t>(b.own_tokens())));
  operators.append(elementwise(OperatorKind::Residual, "stream_sum", values,
                               residual_traffic(b.framework, b.element)));
  b.layer.add(Module::Residual, std::move(operators)).reads(streams).writes(sum).saves(streams);
  return sum;
}

TensorId expanded(LayerBuilder& b, const char* label, TensorId streams, TensorId output) {
  const TensorShape shape = b.layer[streams].shape;
  const TensorId sum = b.tensor("residual streams", shape);
  b.layer
      .add(Module::Residual, elementwise(OperatorKind::Residual, label, shape.rows * shape.columns,
                                         residual_traffic(b.framework, b.element)))
      .reads(streams, output)
      .writes(sum)
      .saves(streams, output);
  return sum;
}

TensorId joined(LayerBuilder& b, const char* label, TensorId stream, TensorId output) {
  return weighs_streams(b.model) ? expanded(b, label, stream, output)
                                 : add_residual(b, label, stream, output);
}

TensorId post_norm(LayerBuilder& b, const char* label, TensorId output) {
  return b.model.norms_per_layer >= 4 ? b.norm(label, output) : output;
}

// A GEMM of a small weight with this rank's tokens.
LayerBuilder::Linear own_linear(const LayerBuilder& b, Module module, WeightName name) {
  LayerWeight weight = b.weights[name];
  weight.count = weight.visited = 1;
  return {module, weight, lower_linear(b.linear, weight, std::llround(b.own_tokens()))};
}

// Of the same norm as attention, added to what that gives.
TensorId add_laurel(LayerBuilder& b, TensorId normed, TensorId output) {
  if (!b.model.laurel_rank) return output;
  const TensorId inner = b.tensor("bottleneck",
                                  {b.own_tokens(), real(*b.model.laurel_rank), b.element}),
                 outer = b.tensor("output of the bottleneck", b.residual());
  b.gemm(own_linear(b, Module::AttentionOutput, WeightName::LaurelDown), normed, {inner}, normed);
  b.gemm(own_linear(b, Module::AttentionOutput, WeightName::LaurelUp), inner, {outer}, inner);
  return add_residual(b, "laurel_residual", b.norm("laurel_norm", outer), output);
}

TensorId attention_half(LayerBuilder& b, LayerKind kind, TensorId stream) {
  const TensorId normed = b.norm("attention_norm", collapsed(b, stream));
  const TensorId partial = add_attention(b, normed, kind.mlp == LayerMlp::None);
  const TensorId output =
      post_norm(b, "post_attention_norm", b.reduce(Module::AttentionOutput, partial));
  return joined(b, "attention_residual", stream, add_laurel(b, normed, output));
}

// Attention and Mamba-2 read one norm; each sums its output over tensor ranks.
TensorId side_by_side_half(LayerBuilder& b, LayerKind kind, TensorId stream) {
  const TensorId normed = b.norm("attention_norm", collapsed(b, stream));
  const TensorId attended = b.reduce(Module::AttentionOutput, add_attention(b, normed, false));
  const TensorId mixed = add_mamba2_mixer(b, normed, kind.mlp == LayerMlp::None);
  LayerOperators sum;
  sum.forward = {memory_bound(OperatorKind::Residual, "parallel_sum", b.residual_elements(),
                              3 * b.element, 1)};
  b.layer.add_in_place(attended, mixed, std::move(sum));
  return joined(b, "mixer_residual", stream, mixed);
}

// Attention, or what mixes tokens in its place.
TensorId mixing_half(LayerBuilder& b, LayerKind kind, TensorId stream) {
  const bool alone = kind.mlp == LayerMlp::None;
  const auto half = [&](TensorId (*mixer)(LayerBuilder&, TensorId, bool)) {
    const TensorId output = mixer(b, b.norm("mixer_norm", collapsed(b, stream)), alone);
    return joined(b, "mixer_residual", stream, post_norm(b, "post_mixer_norm", output));
  };
  switch (kind.mixer) {
    case Mixer::Mamba2: return half(add_mamba2_mixer);
    case Mixer::AttentionAndMamba2: return side_by_side_half(b, kind, stream);
    case Mixer::ShortConvolution: return half(add_short_convolution_mixer);
    case Mixer::GatedDeltaNet: return half(add_gated_delta_net_mixer);
    case Mixer::Mamba1: return half(add_mamba1_mixer);
    case Mixer::LightningAttention: return half(add_lightning_attention_mixer);
    default: return attention_half(b, kind, stream);
  }
}

// Intermediate results of 0.5 x (1 + tanh(...)) written out, saved with x itself: 0.5 x, the
// tangent, and one more than it; under autocast the fp32 copy of x in place of 0.5 x, whose 16 bits
// are those of x.
constexpr double kComposedGeluSaves = 3.0;

// In a parallel block the attention has gathered the input, and may have multiplied it.
LayerBuilder::Linear up_of(const LayerBuilder& b) {
  LayerBuilder::Linear up = b.linear_layer(Module::MlpUp, WeightName::MlpUp);
  if (fuses_inputs(b.model, b.framework)) up.operators = {};
  return up;
}

TensorId add_mlp(LayerBuilder& b, TensorId normed) {
  const double f = b.rows(WeightName::MlpDown);
  const TensorId gate = b.model.gated_mlp ? b.values("gate", f) : kNoTensor, up = b.values("up", f),
                 inner = b.values("activation output", f);
  b.column_gemm(up_of(b), b.model.parallel_block ? SharedInput{} : b.shared_residual(Module::MlpUp),
                normed, {gate, up}, b.saves_input(WeightName::MlpUp));
  if (b.model.gated_mlp && b.eager())
    b.save_extra(Module::Activation, "silu(gate)", b.layer[up].shape);
  if (!b.model.gated_mlp && b.eager() && b.framework.composed_activation)
    b.save_extra(
        Module::Activation, "parts of GELU",
        {b.tokens, kComposedGeluSaves * f, composed_activation_bytes(b.framework, b.element)});
  b.activation(Module::MlpUp, Module::Activation, gate, up, inner,
               elementwise(OperatorKind::Activation, "activation", b.tokens * f,
                           activation_traffic(b.model.gated_mlp, b.framework, b.element)));
  if (b.adapts(WeightName::MlpDown)) b.save_adapter_dropout(b.tokens, f);
  b.layer.end_of_needed();
  return b.row_gemm("stream after the MLP", b.linear_layer(Module::MlpDown, WeightName::MlpDown),
                    inner, b.saves_input(WeightName::MlpDown));
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
  const TensorId output =
      reduce_output(b, kind, mlp_of(b, kind, b.norm("mlp_norm", collapsed(b, stream))));
  return joined(b, "mlp_residual", stream, post_norm(b, "post_mlp_norm", output));
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

// A layer's own embedding of a token, in proportion to what the layer gives: a GEMM to its width,
// the product, a GEMM back, a norm.  Each tensor rank does its own tokens.
TensorId layer_input(LayerBuilder& b, TensorId stream) {
  const double own = b.own_tokens(), width = b.model.layer_embedding->width;
  const auto linear = [&](WeightName name) { return own_linear(b, Module::MlpDown, name); };
  const TensorId gate = b.tensor("layer input gate", {own, width, b.element}),
                 embedding = b.tensor("layer embedding", {own, width, b.element}),
                 product = b.tensor("gated layer embedding", {own, width, b.element}),
                 added = b.tensor("layer input", b.residual());
  b.gemm(linear(WeightName::LayerInputGate), stream, {gate}, stream);
  b.layer
      .add(Module::MlpDown, elementwise(OperatorKind::Activation, "layer_input", own * width,
                                        activation_traffic(true, b.framework, b.element)))
      .reads(gate)
      .writes(embedding, product)
      .saves(gate, embedding);
  b.gemm(linear(WeightName::LayerInputUp), product, {added}, product);
  return b.norm("layer_input_norm", added);
}

// Of AltUp: a norm and a GEMM of one stream to m values, from which come the coefficients of all.
LayerOperators stream_coefficients(LayerBuilder& b) {
  LayerOperators operators = elementwise(OperatorKind::Norm, "stream_norm", b.residual_elements(),
                                         norm_traffic(Norm::RmsNorm, b.framework, b.element));
  operators.append(own_linear(b, Module::Residual, WeightName::StreamWeights).operators);
  return operators;
}

// What each stream is to be, from all before the layer; the first, which the layer works on, saved
// once more as what the norm gave.
struct Predicted {
  TensorId all, first;
};

Predicted predicted_streams(LayerBuilder& b, TensorId streams) {
  const TensorShape shape = b.layer[streams].shape;
  const Predicted predicted{.all = b.tensor("predicted streams", shape),
                            .first = b.tensor("first stream", b.residual())};
  const TensorId normed = b.tensor("normed stream", b.residual(), TensorRole::Statistic);
  LayerOperators operators = stream_coefficients(b);
  operators.append(elementwise(OperatorKind::Residual, "stream_prediction",
                               shape.rows * shape.columns,
                               residual_traffic(b.framework, b.element)));
  b.layer.add(Module::Residual, std::move(operators))
      .reads(streams)
      .writes(predicted.all, predicted.first, normed)
      .saves(streams, normed);
  return predicted;
}

// All streams moved by how far the first is from its prediction; autograd saves that for each.
TensorId corrected_streams(LayerBuilder& b, TensorId predicted, TensorId first) {
  const TensorShape shape = b.layer[predicted].shape;
  const TensorId corrected = b.tensor("residual streams", shape);
  const TensorId normed = b.tensor("normed stream", b.residual(), TensorRole::Statistic),
                 moved = b.tensor("innovation", b.eager() ? shape : b.residual());
  LayerOperators operators = stream_coefficients(b);
  operators.append(elementwise(OperatorKind::Residual, "stream_correction",
                               shape.rows * shape.columns,
                               residual_traffic(b.framework, b.element)));
  b.layer.add(Module::Residual, std::move(operators))
      .reads(predicted, first)
      .writes(corrected, normed, moved)
      .saves(first, normed, moved);
  return corrected;
}

TensorId add_halves(LayerBuilder& b, LayerKind kind, TensorId stream) {
  if (kind.mixer != Mixer::None) stream = mixing_half(b, kind, stream);
  b.layer.begin_second_half();
  return kind.mlp != LayerMlp::None ? mlp_half(b, kind, stream) : stream;
}

// Added to the stream; of several the first, scaled, gives it, and it is added to the others.
TensorId add_layer_input(LayerBuilder& b, TensorId stream) {
  if (!b.model.layer_embedding) return stream;
  if (!b.model.alternating_updates)
    return add_residual(b, "layer_input_residual", stream, layer_input(b, stream));
  const TensorId first = b.tensor("scaled first stream", b.residual()),
                 sum = b.tensor("residual streams", b.layer[stream].shape);
  b.layer
      .add(Module::Residual,
           elementwise(OperatorKind::Residual, "stream_scale", b.residual_elements(),
                       residual_traffic(b.framework, b.element)))
      .reads(stream)
      .writes(first);
  const TensorId input = layer_input(b, first);
  b.layer
      .add(Module::Residual,
           elementwise(OperatorKind::Residual, "layer_input_residual",
                       b.own_tokens() * (stream_size(b.model) - b.model.hidden_size),
                       residual_traffic(b.framework, b.element)))
      .reads(stream, input)
      .writes(sum);
  return sum;
}

TensorId add_layer(LayerBuilder& b, LayerKind kind, TensorId stream) {
  if (b.model.parallel_block) return parallel_block(b, kind, stream);
  if (!b.model.alternating_updates) return add_layer_input(b, add_halves(b, kind, stream));
  const Predicted predicted = predicted_streams(b, stream);
  const TensorId first = add_halves(b, kind, predicted.first);
  return add_layer_input(b, corrected_streams(b, predicted.all, first));
}

}  // namespace

LayerGraph lower_block(const Transformer& model, const Strategy& strategy,
                       const Framework& framework, RecomputeKind recompute, LayerKind kind) {
  const std::optional<Transformer> own = own_shape(model, kind);
  LayerBuilder b(own ? *own : model, strategy, framework, layer_weights(model, kind, strategy.tp));
  TensorShape shape = b.residual();
  shape.columns = stream_size(model);
  const TensorId input = b.tensor("block input", shape);
  b.layer.set_input(input);
  b.layer.set_output(add_layer(b, kind, input));
  b.layer.finish();
  Recompute chosen = strategy.recompute;
  chosen.kind = recompute;
  b.layer.recompute = recomputed_operators(b.layer, chosen, model, framework, kind,
                                           activation_dtype(strategy.precision));
  return std::move(b.layer);
}

}  // namespace llmsim::sim
