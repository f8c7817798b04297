#include "sim/operators/embedding_and_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/dtype.h"
#include "sim/operators/linear.h"
#include "sim/operators/loss.h"
#include "sim/operators/tower.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// A loss that makes its gradients in the forward pass needs the whole input once.
SharedInput shared_by_head(const LayerBuilder& b) {
  SharedInput input = b.shared_input(
      Module::Head, {"head_input", "head_input_again", "head_gradient"}, b.whole_residual().size());
  if (b.strategy.fused_cross_entropy && b.framework.loss.fused == FusedLoss::Gradient)
    input.gather_again.reset();
  return input;
}

// Sequence parallelism sums whole rows and leaves each rank its part.
LayerOperators sum_of_lookups(const LayerBuilder& b) {
  if (b.strategy.tp == 1) return {};
  const auto over_tensor_ranks = [&](const char* label, CollectiveKind kind) {
    return collective(label, kind, GroupKind::Tensor, b.whole_residual().size());
  };
  LayerOperators sum;
  sum.forward = {over_tensor_ranks("embedding_output", b.strategy.sequence_parallel
                                                           ? CollectiveKind::ReduceScatter
                                                           : CollectiveKind::AllReduce)};
  if (b.strategy.sequence_parallel)
    sum.backward = {over_tensor_ranks("embedding_gradient", CollectiveKind::AllGather)};
  return sum;
}

// To the tokens of every sequence the same rows; backward the sum over the sequences.
LayerOperators positions(const LayerBuilder& b) {
  const double lookups = b.tokens * b.model.hidden_size, table = lookups / b.strategy.micro_batch;
  const auto kernels = [&](double values, int count) {
    return memory_bound(OperatorKind::Residual, "positions", 1.0, values * b.element, count);
  };
  return {.forward = {kernels(2.0 * lookups + table, 1)},
          .backward = {kernels(lookups + 4.0 * table, 2)}};
}

// Each token reads the row of its segment, which is added; backward the rows of a segment are
// summed.
LayerOperators segments(const LayerBuilder& b) {
  return elementwise(OperatorKind::Residual, "segments", b.residual_elements(),
                     {.forward = {4.0 * b.element, 2}, .backward = {b.element, 1}});
}

// Of the table alone where the head has another: a tied one is cast for the head's GEMMs.
LayerOperators table_casts(const LayerBuilder& b) {
  if (b.model.tied_embeddings && b.strategy.pp == 1) return {};
  const double values = real(b.model.vocab_size) / b.strategy.tp * b.model.hidden_size,
               bytes = 2.0 + kFp32Bytes;
  return elementwise(OperatorKind::Cast, "weight_cast", values,
                     {.forward = {bytes, 1}, .backward = {bytes, 1}});
}

// Tensor ranks have the ids of their own rows of the table, and a flag for each token.
TensorId add_lookup(LayerBuilder& b) {
  const bool divided = b.strategy.tp > 1, cast = b.framework.storage.gradient_bytes > b.element;
  const double ids = divided ? b.tokens * (kTokenIdBytes + kFlagBytes) : 0.0,
               rows = b.tokens * b.model.hidden_size;
  const double table =
      b.model.position == Position::Learned ? real(b.model.seq_len) * b.model.hidden_size : 0.0;
  const double gradients = (divided ? rows * b.element : 0.0) + (cast ? rows * kFp32Bytes : 0.0);
  TensorShape shape = b.whole_residual();
  shape.element = b.stream_element;
  const TensorId looked_up = b.tensor("embedding output", shape);
  Node& lookup =
      b.layer
          .add(Module::Embedding,
               elementwise(OperatorKind::Embedding, "embedding", rows,
                           {.forward = {2 * b.element, 1}, .backward = {3 * b.element, 2}}))
          .writes(looked_up)
          .forward_workspace(Bytes(ids));
  if (!b.autograd())
    lookup.backward_workspace(
        Bytes(std::max(table * (b.element + (cast ? kFp32Bytes : 0.0)), ids + gradients)));
  return b.reduce(Module::Embedding, looked_up, sum_of_lookups(b));
}

// Of all layers: a lookup, a GEMM of the stream, a norm, their sum; layers save what they read.
void add_layer_embeddings(LayerBuilder& b, TensorId stream) {
  const std::int64_t width = std::int64_t{b.model.num_layers} * b.model.layer_embedding->width,
                     tokens = static_cast<std::int64_t>(b.own_tokens());
  const double values = b.own_tokens() * real(width);
  const TensorId all = b.tensor("embeddings of layers", {b.own_tokens(), real(width), b.element});
  LayerOperators operators =
      lower_linear(b.linear, "layer_embeddings", tokens, width, b.model.hidden_size);
  operators.append(elementwise(OperatorKind::Norm, "layer_embedding_norm", values,
                               norm_traffic(Norm::RmsNorm, b.framework, b.element)));
  operators.append(elementwise(OperatorKind::Embedding, "layer_embedding", values,
                               {.forward = {3 * b.element, 1}, .backward = {3 * b.element, 2}}));
  b.layer.add(Module::Embedding, std::move(operators)).reads(stream).writes(all).saves(stream);
}

// A row of each table and a GEMM of it, which are added to the token's embedding.
void add_ngrams(LayerBuilder& b, TensorId stream) {
  if (!b.model.ngram_embedding) return;
  const NgramEmbedding& ngrams = *b.model.ngram_embedding;
  const double width = real(ngrams.num_tables) * ngrams.width;
  const TensorId rows = b.tensor("embeddings of n-grams", {b.own_tokens(), width, b.element});
  LayerOperators operators =
      elementwise(OperatorKind::Embedding, "ngram_embedding", b.own_tokens() * width,
                  {.forward = {2 * b.element, 1}, .backward = {3 * b.element, 2}});
  operators.append(sum_of_lookups(b));  // of about as many values
  for (int table = 0; table < ngrams.num_tables; ++table)
    operators.append(lower_linear(b.linear, "ngram_projection", std::llround(b.own_tokens()),
                                  b.model.hidden_size, ngrams.width));
  operators.append(elementwise(OperatorKind::Residual, "ngram_sum",
                               b.residual_elements() * ngrams.num_tables,
                               residual_traffic(b.framework, b.element)));
  b.layer.add(Module::Embedding, std::move(operators)).reads(stream).writes(rows).saves(rows);
}

// GEMMs of this rank's tokens that make the other streams of the first, or one of all, and what
// gives them the first one's magnitude.
LayerOperators stream_projections(const LayerBuilder& b, const char* label) {
  const auto own = std::llround(b.own_tokens());
  const std::int64_t h = b.model.hidden_size, others = b.model.residual_streams - 1;
  LayerOperators operators;
  for (std::int64_t i = 0; i < others; ++i)
    operators.append(lower_linear(b.linear, label, own, h, h));
  operators.append(elementwise(OperatorKind::Norm, "stream_magnitude", real(own * others * h),
                               norm_traffic(Norm::RmsNorm, b.framework, b.element)));
  return operators;
}

TensorShape streams_shape(const LayerBuilder& b) {
  TensorShape shape = b.residual();
  shape.columns = stream_size(b.model);
  return shape;
}

TensorId add_streams(LayerBuilder& b, TensorId stream) {
  if (!b.model.alternating_updates) return stream;
  const TensorId streams = b.tensor("residual streams", streams_shape(b));
  b.layer.add(Module::Embedding, stream_projections(b, "stream_projection"))
      .reads(stream)
      .writes(streams)
      .saves(stream);
  return streams;
}

// Their mean after a projection of each.
TensorId joined_streams(LayerBuilder& b, TensorId streams) {
  const TensorId stream = b.tensor("mean of streams", b.residual());
  LayerOperators operators = stream_projections(b, "stream_unprojection");
  operators.append(elementwise(OperatorKind::Residual, "stream_mean",
                               b.own_tokens() * stream_size(b.model),
                               residual_traffic(b.framework, b.element)));
  b.layer.add(Module::Head, std::move(operators)).reads(streams).writes(stream).saves(streams);
  return stream;
}

TensorId add_embedding(LayerBuilder& b) {
  TensorId stream = add_lookup(b);
  LayerOperators in_place;
  if (b.framework.separate_position_kernel && b.model.position == Position::Learned)
    in_place.append(positions(b));
  if (b.model.encoder && b.model.encoder->segment_types > 0) in_place.append(segments(b));
  if (b.framework.casts_weights_in_backward && b.element < kFp32Bytes)
    in_place.append(table_casts(b));
  b.layer.add(Module::Embedding, std::move(in_place));
  add_ngrams(b, stream);
  if (b.model.embedding_norm) stream = b.norm("embedding_norm", stream);
  if (b.model.layer_embedding) add_layer_embeddings(b, stream);
  if (b.framework.dropout > 0.0) {
    LayerOperators dropout;
    dropout.forward = {memory_bound(OperatorKind::Residual, "embedding_dropout",
                                    b.residual_elements(), 2 * b.element + 1, 1)};
    b.save_extra(Module::Embedding, "embedding dropout mask",
                 {b.own_tokens(), real(b.model.hidden_size), 1.0}, std::move(dropout));
  }
  return stream;
}

// What a multi-token-prediction layer has before its block: norms of the hidden state and of the
// next token's embedding, and the GEMM that joins them, (t, h, 2 h).
LayerOperators prediction_input(const LayerBuilder& b) {
  LayerBuilder input(b.model, b.strategy, b.framework);
  add_embedding(input);
  const LayerOperators norm =
      elementwise(OperatorKind::Norm, "prediction_norm", b.residual_elements(),
                  norm_traffic(b.model.norm, b.framework, b.element));
  input.layer.add(Module::Embedding, norm);
  input.layer.add(Module::Embedding, norm);
  const std::int64_t h = b.model.hidden_size;
  const std::size_t place = input.layer.backward_place();
  SharedInput joined;
  if (b.strategy.tp > 1) {
    const auto over_tensor_ranks = [&](CollectiveKind kind) {
      Operator op =
          collective("prediction_input", kind, GroupKind::Tensor, 2.0 * b.whole_residual().size());
      op.module = Module::Embedding;
      return op;
    };
    joined.sum = over_tensor_ranks(CollectiveKind::ReduceScatter);
    input.layer.add_forward(Module::Embedding, over_tensor_ranks(CollectiveKind::AllGather));
  }
  LinearContext context;
  context.precision = b.strategy.precision, context.framework = &b.framework;
  input.layer.add(Module::Embedding, lower_linear(context, "prediction_input", b.num_tokens,
                                                  h / b.strategy.tp, 2 * h));
  input.layer.share_gradient(place, joined);
  input.layer.finish();
  return std::move(input.layer);
}

// Of an encoder's head: t x h values become p x h; backward the rows go back into zeros of the whole
// stream.
LayerOperators picked_rows(const LayerBuilder& b, double predicted) {
  const auto copy = [&](int kernels) {
    return memory_bound(OperatorKind::Copy, "predicted_tokens", predicted, 2 * b.element, kernels);
  };
  Operator scatter = copy(2);
  scatter.moved += Bytes(b.tokens * b.model.hidden_size * b.element);
  return {.forward = {copy(1)}, .backward = {scatter}};
}

constexpr std::int64_t kSentenceClasses = 2;  // follows, or does not

LinearContext linear_of_head(const LayerBuilder& b) {
  return {.precision = b.strategy.precision,
          .framework = &b.framework,
          .adapters = {},
          .frozen = b.strategy.adapters.has_value()};
}

// The first tokens' states through (h, h) and a tanh.
LayerOperators pooler(const LayerBuilder& b) {
  const std::int64_t h = b.model.hidden_size, sequences = b.strategy.micro_batch;
  LayerOperators operators = lower_linear(linear_of_head(b), "pooler", sequences, h, h);
  operators.append(elementwise(OperatorKind::Activation, "pooler_activation", real(sequences * h),
                               activation_traffic(false, b.framework, b.element)));
  return operators;
}

// Between an encoder's last layer and the logits.
LayerOperators encoder_head(const LayerBuilder& b) {
  const std::int64_t h = b.model.hidden_size, predicted = predicted_of(b.model, b.num_tokens);
  const LinearContext linear = linear_of_head(b);
  LayerOperators head = picked_rows(b, real(predicted * h));
  const auto gemm = [&](const char* label, std::int64_t rows, std::int64_t out) {
    head.append(lower_linear(linear, label, rows, out, h));
  };
  const auto stream = [&](OperatorKind kind, const char* label, std::int64_t rows,
                          const Traffic& traffic) {
    head.append(elementwise(kind, label, real(rows * h), traffic));
  };
  gemm("head_transform", predicted, h);
  stream(OperatorKind::Activation, "head_activation", predicted,
         activation_traffic(false, b.framework, b.element));
  stream(OperatorKind::Norm, "head_norm", predicted,
         norm_traffic(b.model.norm, b.framework, b.element));
  if (b.model.encoder->next_sentence) {
    head.append(pooler(b));
    gemm("next_sentence", b.strategy.micro_batch, kSentenceClasses);
  }
  return head;
}

// Inputs of the dense layer, its activation and norm, of the pooler, its activation and the
// classifier.
TensorShape saved_by_encoder_head(const LayerBuilder& b, double predicted) {
  const double linear = b.strategy.adapters ? 0.0 : linear_input_bytes(b.linear), e = b.element,
               sequences = b.model.encoder->next_sentence ? b.strategy.micro_batch : 0.0;
  return {1.0, real(b.model.hidden_size),
          predicted * (linear + 2.0 * e) + sequences * (2.0 * linear + e)};
}

// Its input is gathered before rows of it are picked, and summed once they are back in their places.
void add_encoder_head(LayerBuilder& b, TensorId stream) {
  const std::int64_t predicted = predicted_of(b.model, b.num_tokens);
  const SharedInput input = shared_by_head(b);
  b.layer.add(Module::Head);
  if (b.model.final_norm)
    b.layer.add(Module::Head, elementwise(OperatorKind::Norm, "final_norm", b.residual_elements(),
                                          norm_traffic(b.model.norm, b.framework, b.element)));
  if (input.gather) b.layer.add_forward(Module::Head, *input.gather);
  if (input.sum) b.layer.add_backward(Module::Head, *input.sum);
  b.save_extra(Module::Head, "inputs of the encoder's head",
               saved_by_encoder_head(b, real(predicted)), encoder_head(b));
  add_loss(b, stream, predicted, {});
  if (input.gather_again) b.layer.add_backward(Module::Head, *input.gather_again);
}

// The labels of this rank's tokens, or of the first token of each sequence behind a pooler.
void add_labels(LayerBuilder& b, TensorId states) {
  const std::int64_t h = b.model.hidden_size, labels = *b.model.num_labels;
  const bool trains = !b.strategy.adapters;
  std::int64_t rows = std::llround(b.own_tokens());
  if (has_pooler(b.model)) {
    rows = b.strategy.micro_batch;
    const TensorId pooled = b.tensor("pooled states", {real(rows), real(h), b.element});
    b.save_extra(Module::Head, "inputs of the pooler",
                 {real(rows), real(h), (trains ? linear_input_bytes(b.linear) : 0.0) + b.element});
    b.layer.add(Module::Head, pooler(b)).reads(states).writes(pooled);
    states = pooled;
  }
  if (labels == 0) return;
  const TensorId logits =
      b.tensor("logits of labels", {real(rows), real(labels), b.element}, TensorRole::Logits);
  b.gemm({Module::Head,
          {.rows = h, .columns = labels, .biases = b.model.bias.head},
          lower_linear(linear_of_head(b), "labels", rows, labels, h)},
         states, {logits}, trains ? states : kNoTensor);
  b.layer
      .add(Module::Loss,
           elementwise(OperatorKind::CrossEntropy, "loss_of_labels", real(rows * labels),
                       cross_entropy_traffic(b.framework, b.element)))
      .reads(logits)
      .saves(logits);
}

void add_head(LayerBuilder& b, TensorId stream) {
  if (b.model.encoder && !b.model.num_labels) return add_encoder_head(b, stream);
  const TensorId normed = b.model.final_norm ? b.norm("final_norm", stream) : stream;
  if (b.model.num_labels) return add_labels(b, normed);
  add_loss(b, normed, predicted_of(b.model, b.num_tokens), shared_by_head(b));
}

// Each prediction layer has the head's own norm and loss once more, after its input: the hidden
// state and the next token's embedding, normalised and joined, give the stream of a further
// prediction.  All logits wait for the backward pass.
void add_predictions(LayerBuilder& b) {
  if (b.model.mtp_layers == 0) return;
  const LayerOperators input = prediction_input(b);
  for (int i = 0; i < b.model.mtp_layers; ++i) {
    const TensorId stream = b.tensor("prediction stream", b.residual());
    b.layer.add_as_they_are(Module::Head, input).writes(stream);
    TensorShape both = b.residual();
    both.columns *= 2.0;
    b.save_extra(Module::Head, "hidden state and next embedding", both);
    add_head(b, stream);
  }
}

}  // namespace

std::int64_t predicted_of(const Transformer& model, std::int64_t tokens) {
  return std::max<std::int64_t>(1, std::llround(predicted_share(model) * real(tokens)));
}

LayerGraph lower_embedding(const Transformer& model, const Strategy& strategy,
                           const Framework& framework, bool lists_tower_layers) {
  LayerBuilder b(model, strategy, framework);
  const TensorId stream = add_streams(b, add_embedding(b));
  add_towers(b, lists_tower_layers);
  b.layer.set_output(stream);
  b.layer.finish();
  return std::move(b.layer);
}

LayerGraph lower_head(const Transformer& model, const Strategy& strategy,
                      const Framework& framework) {
  LayerBuilder b(model, strategy, framework);
  TensorId stream =
      b.tensor("residual stream", model.alternating_updates ? streams_shape(b) : b.residual());
  b.layer.set_input(stream);
  if (model.alternating_updates) stream = joined_streams(b, stream);
  add_head(b, stream);
  add_predictions(b);
  b.layer.finish();
  return std::move(b.layer);
}

}  // namespace llmsim::sim
