#include "sim/operators/ends.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// Of the head's input over tensor ranks.
SharedInput shared_input(const Transformer& model, const Strategy& strategy,
                         const Framework& framework, const EndShape& shape) {
  if (strategy.tp == 1) return {};
  const auto over_tensor_ranks = [&](const char* label, CollectiveKind kind) {
    Operator op = collective(label, kind, GroupKind::Tensor, whole_residual(model, shape));
    op.module = Module::Head;
    return op;
  };
  SharedInput input;
  if (!strategy.sequence_parallel) {
    input.sum = over_tensor_ranks("head_gradient", CollectiveKind::AllReduce);
    return input;
  }
  input.gather = over_tensor_ranks("head_input", CollectiveKind::AllGather);
  // A loss that makes its gradients in the forward pass needs the whole input once.
  if (!strategy.fused_cross_entropy || framework.loss.fused != FusedLoss::Gradient)
    input.gather_again = over_tensor_ranks("head_input_again", CollectiveKind::AllGather);
  input.sum = over_tensor_ranks("head_gradient", CollectiveKind::ReduceScatter);
  return input;
}

void add_norm(LayerBuilder& ends, Module module, const char* label, const Transformer& model,
              const Framework& framework, const EndShape& shape) {
  const Traffic traffic = norm_traffic(model.norm, framework, shape.element);
  ends.add(OperatorKind::Norm, module, label, shape.residual, traffic);
}

// To the tokens of every sequence the same rows; backward the sum over the sequences.
void add_positions(LayerBuilder& ends, const Transformer& model, const Strategy& strategy,
                   const EndShape& shape) {
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size,
               table = lookups / strategy.micro_batch;
  const auto positions = [&](double values, int kernels) {
    return memory_bound(OperatorKind::Residual, "positions", 1.0, values * shape.element, kernels);
  };
  ends.add_forward(Module::Embedding, positions(2.0 * lookups + table, 1));
  ends.add_backward(Module::Embedding, positions(lookups + 4.0 * table, 2));
}

// Each token reads the row of its segment, which is added; backward the rows of a segment are
// summed.
void add_segments(LayerBuilder& ends, const EndShape& shape) {
  ends.add(OperatorKind::Residual, Module::Embedding, "segments", shape.residual,
           {.forward_bytes = 4.0 * shape.element,
            .forward_kernels = 2,
            .backward_bytes = shape.element,
            .backward_kernels = 1});
}

// Of the table alone where the head has another: a tied one is cast for the head's GEMMs.
void add_table_casts(LayerBuilder& ends, const Transformer& model, const Strategy& strategy) {
  if (model.tied_embeddings && strategy.pp == 1) return;
  const double values = static_cast<double>(model.vocab_size) / strategy.tp * model.hidden_size;
  const double bytes = 2.0 + kFp32Bytes;
  ends.add(OperatorKind::Cast, Module::Embedding, "weight_cast", values,
           {.forward_bytes = bytes,
            .forward_kernels = 1,
            .backward_bytes = bytes,
            .backward_kernels = 1});
}

}  // namespace

std::int64_t predicted_of(const Transformer& model, std::int64_t tokens) {
  return std::max<std::int64_t>(1,
                                std::llround(predicted_share(model) * static_cast<double>(tokens)));
}

LayerOperators lower_embedding(const Transformer& model, const Strategy& strategy,
                               const Framework& framework) {
  const EndShape shape = shape_of(model, strategy);
  const Module module = Module::Embedding;
  LayerBuilder ends;
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size;
  ends.add(OperatorKind::Embedding, module, "embedding", lookups,
           {.forward_bytes = 2 * shape.element,
            .forward_kernels = 1,
            .backward_bytes = 3 * shape.element,
            .backward_kernels = 2});
  if (strategy.tp > 1) {
    const CollectiveKind kind =
        strategy.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    const Bytes message = whole_residual(model, shape);
    ends.add_forward(module, collective("embedding_output", kind, GroupKind::Tensor, message));
    if (strategy.sequence_parallel)
      ends.add_backward(module, collective("embedding_gradient", CollectiveKind::AllGather,
                                           GroupKind::Tensor, message));
  }
  if (framework.separate_position_kernel && model.position == Position::Learned)
    add_positions(ends, model, strategy, shape);
  if (model.encoder && model.encoder->segment_types > 0) add_segments(ends, shape);
  if (framework.casts_weights_in_backward && shape.element < kFp32Bytes)
    add_table_casts(ends, model, strategy);
  if (model.embedding_norm) add_norm(ends, module, "embedding_norm", model, framework, shape);
  if (framework.dropout > 0.0)
    ends.add_forward(module, memory_bound(OperatorKind::Residual, "embedding_dropout",
                                          shape.residual, 2 * shape.element + 1, 1));
  return std::move(ends).build();
}

namespace {

// What a multi-token-prediction layer has beside its block: norms of the hidden state and of the
// next token's embedding, and the GEMM that joins them, (t, h, 2 h).
LayerOperators lower_prediction_input(const Transformer& model, const Strategy& strategy,
                                      const Framework& framework, const EndShape& shape) {
  const Module module = Module::Embedding;
  LayerBuilder ends;
  ends.add(lower_embedding(model, strategy, framework));
  add_norm(ends, module, "prediction_norm", model, framework, shape);
  add_norm(ends, module, "prediction_norm", model, framework, shape);
  const std::int64_t h = model.hidden_size;
  LinearContext context;
  context.precision = strategy.precision, context.framework = &framework;
  const Bytes joined = 2.0 * whole_residual(model, shape);
  const auto over_tensor_ranks = [&](CollectiveKind kind) {
    return collective("prediction_input", kind, GroupKind::Tensor, joined);
  };
  LayerOperators linear =
      lower_linear(context, "prediction_input", shape.tokens, h / strategy.tp, 2 * h);
  if (strategy.tp > 1)
    share_input(linear, {.gather = over_tensor_ranks(CollectiveKind::AllGather),
                         .gather_again = {},
                         .sum = over_tensor_ranks(CollectiveKind::ReduceScatter)});
  ends.add(module, std::move(linear));
  return std::move(ends).build();
}

// Each prediction layer has the head's own norm and loss once more, after its input; all logits wait
// for the backward pass.
LayerOperators with_predictions(const LayerOperators& head, const LayerOperators& input,
                                int layers) {
  LayerBuilder ends;
  ends.add(head);
  for (int i = 0; i < layers; ++i) {
    ends.add(input);
    ends.add(head);
  }
  return std::move(ends).build();
}

// Of an encoder's head: `tokens` x h values become `predicted` x h; backward the rows go back into
// zeros of the whole stream.
void pick_rows(LayerBuilder& head, double tokens, double predicted, double element) {
  const auto copy = [&](int kernels) {
    return memory_bound(OperatorKind::Copy, "predicted_tokens", predicted, 2 * element, kernels);
  };
  Operator scatter = copy(2);
  scatter.moved += Bytes(tokens * element);
  head.add_forward(Module::Head, copy(1));
  head.add_backward(Module::Head, scatter);
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
  LayerBuilder head;
  const auto gemm = [&](const char* label, std::int64_t rows, std::int64_t out) {
    head.add(Module::Head, lower_linear(linear, label, rows, out, h));
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
  return std::move(head).build();
}

// Its input is gathered before rows of it are picked, and summed once they are back in their places.
void add_encoder_head(LayerBuilder& ends, const LayerOperators& head, const LayerOperators& loss,
                      const SharedInput& input) {
  if (input.gather) ends.add_forward(Module::Head, *input.gather);
  if (input.sum) ends.add_backward(Module::Head, *input.sum);
  ends.add(head);
  ends.add(loss);
  if (input.gather_again) ends.add_backward(Module::Head, *input.gather_again);
}

}  // namespace

LayerOperators lower_head(const Transformer& model, const Strategy& strategy,
                          const Framework& framework) {
  const EndShape shape = shape_of(model, strategy);
  LayerOperators loss = lower_loss(model, strategy, framework, predicted_of(model, shape.tokens));
  LayerBuilder ends;
  if (model.final_norm) add_norm(ends, Module::Head, "final_norm", model, framework, shape);
  const SharedInput input = shared_input(model, strategy, framework, shape);
  if (model.encoder) {
    add_encoder_head(ends, lower_encoder_head(model, strategy, framework, shape), loss, input);
  } else {
    share_input(loss, input);
    ends.add(loss);
  }
  LayerOperators head = std::move(ends).build();
  if (model.mtp_layers == 0) return head;
  return with_predictions(head, lower_prediction_input(model, strategy, framework, shape),
                          model.mtp_layers);
}

}  // namespace llmsim::sim
