#include "sim/operators/ends.h"

#include <algorithm>
#include <cmath>

#include "sim/base/dtype.h"
#include "sim/operators/linear.h"
#include "sim/operators/loss.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

struct EndShape {
  std::int64_t tokens;
  double residual;  // elements of the residual stream on this rank
  double element;   // bytes
};

EndShape shape_of(const Transformer& model, const Strategy& strategy) {
  const std::int64_t tokens =
      static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp;
  const double whole = static_cast<double>(tokens) * model.hidden_size;
  return {.tokens = tokens,
          .residual = strategy.sequence_parallel ? whole / strategy.tp : whole,
          .element = size_of(activation_dtype(strategy.precision)).value()};
}

Bytes whole_residual(const Transformer& model, const EndShape& shape) {
  return Bytes(static_cast<double>(shape.tokens) * model.hidden_size * shape.element);
}

void add_tensor_collectives(LayerOperators& ends, const Transformer& model,
                            const Strategy& strategy, const Framework& framework,
                            const EndShape& shape) {
  if (strategy.tp == 1) return;
  const Bytes message = whole_residual(model, shape);
  if (!strategy.sequence_parallel) {
    ends.backward.push_back(
        collective("head_gradient", CollectiveKind::AllReduce, GroupKind::Tensor, message));
    return;
  }
  ends.forward.push_back(
      collective("head_input", CollectiveKind::AllGather, GroupKind::Tensor, message));
  // A loss that makes its gradients in the forward pass needs the whole input once.
  if (!strategy.fused_cross_entropy || framework.loss.fused != FusedLoss::Gradient)
    ends.backward.push_back(
        collective("head_input_again", CollectiveKind::AllGather, GroupKind::Tensor, message));
  ends.backward.push_back(
      collective("head_gradient", CollectiveKind::ReduceScatter, GroupKind::Tensor, message));
}

void add_norm(LayerOperators& ends, const char* label, const Transformer& model,
              const Framework& framework, const EndShape& shape) {
  const Traffic traffic = norm_traffic(model.norm, framework, shape.element);
  ends.add(OperatorKind::Norm, Module::Norm, label, shape.residual, traffic);
}

// To the tokens of every sequence the same rows; backward the sum over the sequences.
void add_positions(LayerOperators& ends, const Transformer& model, const Strategy& strategy,
                   const EndShape& shape) {
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size,
               table = lookups / strategy.micro_batch;
  const auto add = [&](OperatorList& operators, double values, int kernels) {
    operators.push_back(
        memory_bound(OperatorKind::Residual, "positions", 1.0, values * shape.element, kernels));
  };
  add(ends.forward, 2.0 * lookups + table, 1);
  add(ends.backward, lookups + 4.0 * table, 2);
}

// Each token reads the row of its segment, which is added; backward the rows of a segment are
// summed.
void add_segments(LayerOperators& ends, const EndShape& shape) {
  ends.forward.push_back(
      memory_bound(OperatorKind::Residual, "segments", shape.residual, 4.0 * shape.element, 2));
  ends.backward.push_back(
      memory_bound(OperatorKind::Residual, "segments", shape.residual, shape.element, 1));
}

// Of the table alone where the head has another: a tied one is cast for the head's GEMMs.
void add_table_casts(LayerOperators& ends, const Transformer& model, const Strategy& strategy) {
  if (model.tied_embeddings && strategy.pp == 1) return;
  const double values = static_cast<double>(model.vocab_size) / strategy.tp * model.hidden_size;
  for (OperatorList* pass : {&ends.forward, &ends.backward})
    pass->push_back(memory_bound(OperatorKind::Cast, "weight_cast", values, 2.0 + kFp32Bytes, 1));
}

LayerOperators of_module(Module module, const LayerOperators& operators) {
  LayerOperators all;
  all.add(module, operators);
  return all;
}

}  // namespace

std::int64_t predicted_of(const Transformer& model, std::int64_t tokens) {
  return std::max<std::int64_t>(1,
                                std::llround(predicted_share(model) * static_cast<double>(tokens)));
}

LayerOperators lower_embedding(const Transformer& model, const Strategy& strategy,
                               const Framework& framework) {
  const EndShape shape = shape_of(model, strategy);
  LayerOperators ends;
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size;
  ends.forward.push_back(
      memory_bound(OperatorKind::Embedding, "embedding", lookups, 2 * shape.element, 1));
  ends.backward.push_back(
      memory_bound(OperatorKind::Embedding, "embedding", lookups, 3 * shape.element, 2));
  if (strategy.tp > 1) {
    const CollectiveKind kind =
        strategy.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    const Bytes message = whole_residual(model, shape);
    ends.forward.push_back(collective("embedding_output", kind, GroupKind::Tensor, message));
    if (strategy.sequence_parallel)
      ends.backward.push_back(
          collective("embedding_gradient", CollectiveKind::AllGather, GroupKind::Tensor, message));
  }
  if (framework.separate_position_kernel && model.position == Position::Learned)
    add_positions(ends, model, strategy, shape);
  if (model.encoder && model.encoder->segment_types > 0) add_segments(ends, shape);
  if (framework.casts_weights_in_backward && shape.element < kFp32Bytes)
    add_table_casts(ends, model, strategy);
  if (model.embedding_norm) add_norm(ends, "embedding_norm", model, framework, shape);
  if (framework.dropout > 0.0)
    ends.forward.push_back(memory_bound(OperatorKind::Residual, "embedding_dropout", shape.residual,
                                        2 * shape.element + 1, 1));
  return of_module(Module::Embedding, ends);
}

namespace {

// What a multi-token-prediction layer has beside its block: norms of the hidden state and of the
// next token's embedding, and the GEMM that joins them, (t, h, 2 h).
LayerOperators lower_prediction_input(const Transformer& model, const Strategy& strategy,
                                      const Framework& framework, const EndShape& shape) {
  LayerOperators ends = lower_embedding(model, strategy, framework);
  add_norm(ends, "prediction_norm", model, framework, shape);
  add_norm(ends, "prediction_norm", model, framework, shape);
  const std::int64_t h = model.hidden_size;
  LinearContext context;
  context.precision = strategy.precision, context.framework = &framework;
  const Bytes joined = 2.0 * whole_residual(model, shape);
  const bool divided = strategy.tp > 1;
  if (divided)
    ends.forward.push_back(
        collective("prediction_input", CollectiveKind::AllGather, GroupKind::Tensor, joined));
  ends.add(lower_linear(context, "prediction_input", shape.tokens, h / strategy.tp, 2 * h));
  if (divided)
    ends.backward.push_back(
        collective("prediction_input", CollectiveKind::ReduceScatter, GroupKind::Tensor, joined));
  return ends;
}

// The head's own norm and loss run once more for each prediction layer; all logits wait for the
// backward pass.
void add_predictions(LayerOperators& ends, const LayerOperators& head, const LayerOperators& input,
                     int layers) {
  for (int i = 0; i < layers; ++i) {
    ends.add({.forward = input.forward, .backward = {}, .recompute = {}});
    ends.add(head);
    ends.add({.forward = {}, .backward = input.backward, .recompute = {}});
  }
}

// Of an encoder's head: `tokens` x h values become `predicted` x h; backward the rows go back into
// zeros of the whole stream.
void pick_rows(LayerOperators& head, double tokens, double predicted, double element) {
  head.forward.push_back(
      memory_bound(OperatorKind::Copy, "predicted_tokens", predicted, 2 * element, 1));
  Operator scatter =
      memory_bound(OperatorKind::Copy, "predicted_tokens", predicted, 2 * element, 2);
  scatter.moved += Bytes(tokens * element);
  head.backward.push_back(scatter);
}

constexpr std::int64_t kSentenceClasses = 2;  // follows, or does not

// Between an encoder's last layer and the logits.
LayerOperators lower_encoder_head(const Transformer& model, const Strategy& strategy,
                                  const Framework& framework, const EndShape& shape) {
  const std::int64_t h = model.hidden_size, predicted = predicted_of(model, shape.tokens);
  const LinearContext linear{.precision = strategy.precision,
                             .framework = &framework,
                             .adapters = {},
                             .frozen = strategy.adapters.has_value()};
  LayerOperators head;
  const auto gemm = [&](const char* label, std::int64_t rows, std::int64_t out) {
    head.add(lower_linear(linear, label, rows, out, h));
  };
  const auto elements = [&](std::int64_t rows) {
    return static_cast<double>(rows) * model.hidden_size;
  };
  const auto stream = [&](OperatorKind kind, const char* label, std::int64_t rows,
                          const Traffic& traffic) {
    head.add(kind, Module::Head, label, elements(rows), traffic);
  };
  const Traffic activation = activation_traffic(false, framework, shape.element);
  pick_rows(head, elements(shape.tokens), elements(predicted), shape.element);
  gemm("head_transform", predicted, h);
  stream(OperatorKind::Activation, "head_activation", predicted, activation);
  stream(OperatorKind::Norm, "head_norm", predicted,
         norm_traffic(model.norm, framework, shape.element));
  if (model.encoder->next_sentence) {
    gemm("pooler", strategy.micro_batch, h);
    stream(OperatorKind::Activation, "pooler_activation", strategy.micro_batch, activation);
    gemm("next_sentence", strategy.micro_batch, kSentenceClasses);
  }
  return head;
}

}  // namespace

LayerOperators lower_head(const Transformer& model, const Strategy& strategy,
                          const Framework& framework) {
  const EndShape shape = shape_of(model, strategy);
  LayerOperators ends;
  if (model.final_norm) add_norm(ends, "final_norm", model, framework, shape);
  add_tensor_collectives(ends, model, strategy, framework, shape);
  if (model.encoder) ends.add(lower_encoder_head(model, strategy, framework, shape));
  ends = of_module(Module::Head, ends);
  ends.add(lower_loss(model, strategy, framework, predicted_of(model, shape.tokens)));
  if (model.mtp_layers > 0)
    add_predictions(ends, LayerOperators(ends),
                    lower_prediction_input(model, strategy, framework, shape), model.mtp_layers);
  return ends;
}

}  // namespace llmsim::sim
