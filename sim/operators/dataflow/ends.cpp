#include "sim/operators/dataflow.h"

#include <algorithm>

#include "sim/base/dtype.h"
#include "sim/operators/dataflow/layer.h"
#include "sim/operators/ends.h"
#include "sim/operators/loss.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

constexpr double kTokenId = 8.0;
constexpr double kFlag = 1.0;  // a bool

// The head of one rank.
struct Head {
  LayerDataflow& layer;
  double tokens;   // whose logits are made
  double columns;  // of the logits on this rank

  const Transformer& model() const { return layer.model(); }
  const Strategy& strategy() const { return layer.strategy(); }
  const Framework& framework() const { return layer.framework(); }

  bool divided() const { return strategy().tp > 1; }
  bool trains() const { return !strategy().adapters; }
  bool casts_weights() const {
    return framework().casts_weights_per_microbatch && layer.element < kFp32Bytes;
  }
  LayerWeight weight() const {
    return {.rows = model().hidden_size, .columns = model().vocab_size / strategy().tp};
  }
  double weights() const { return columns * model().hidden_size; }
  double logits() const { return tokens * columns; }
  double chunks() const {
    return static_cast<double>(
        loss_chunks(model(), framework(), static_cast<std::int64_t>(tokens)));
  }
};

// Of the rows of `tokens` tokens: a temporary of their exponentials; over tensor ranks ids, flags
// and three sums instead.
double row_sums(const Head& head, double tokens) {
  if (!head.divided())
    return std::max(tokens * head.columns * kFp32Bytes, tokens * kFp32Bytes + kFp32Bytes);
  return tokens * (kTokenId + kFlag + 3.0 * kFp32Bytes);
}

double row_sums_backward(const Head& head, double tokens) {
  return head.divided() ? tokens * (kTokenId + kFlag + kFp32Bytes) : tokens * kFp32Bytes;
}

// The largest chunk from its logits to their gradient, and that of the head's weights.
double chunk_workspace(const Head& head) {
  const auto whole = static_cast<std::int64_t>(head.tokens);
  const std::int64_t count = loss_chunks(head.model(), head.framework(), whole);
  const double chunk = std::min(head.tokens, static_cast<double>((whole + count - 1) / count)),
               e = head.layer.element;
  const double low = chunk * head.columns * e, high = chunk * head.columns * kFp32Bytes,
               loss = 2.0 * kFp32Bytes;
  const double of_weights =
      head.layer.weight_gradient_workspace(Module::Head, head.weight()).value();
  const double forward =
      (e < kFp32Bytes ? std::max(low, row_sums(head, chunk)) : row_sums(head, chunk)) + high;
  const double backward =
      high + std::max(row_sums_backward(head, chunk), e < kFp32Bytes ? low : 0.0) + kFp32Bytes;
  return std::max({forward, backward, low + kFp32Bytes + of_weights}) + loss - kFp32Bytes;
}

double fp32_copies(const Head& head) {
  const bool shared = head.divided() && head.framework().loss.parallel_logit_copies > 0.0;
  return shared ? head.framework().loss.parallel_logit_copies
                : head.framework().loss.fp32_logit_copies;
}

// Its logits with their fp32 copies or their gradient, and the gradient of the head's weights: of
// the chunk and the sum.
Bytes recomputed_chunk(const Head& head) {
  const double e = head.layer.element, in_place = head.framework().loss.gradient_in_place ? 0.0 : e;
  const double beside =
      head.framework().loss.fp32_logits ? fp32_copies(head) * kFp32Bytes : in_place;
  return Bytes(head.logits() * (e + beside) / head.chunks() +
               (head.trains() ? 2.0 * head.weights() * e : 0.0));
}

// Logits of a chunk of tokens at a time.
void loss_of_chunks(const Head& head, Tensor normed) {
  Tensor input = normed;
  if (head.layer.gathers) {
    input = head.layer.flow.add(head.layer.whole_residual());
    head.layer.flow.step(Module::Head).reads(normed).writes(input);
  }
  if (head.framework().loss.fused == FusedLoss::Recomputed) {
    head.layer.flow.step(Module::Loss)
        .reads(input)
        .saves(normed)
        .forward_workspace(recomputed_chunk(head))
        .backward_workspace(recomputed_chunk(head));
    return;
  }
  const Tensor gradient = head.layer.add(head.layer.size(input).value(), Role::Statistic);
  Dataflow::Step& loss = head.layer.flow.step(Module::Loss)
                             .reads(input)
                             .writes(gradient)
                             .saves(gradient)
                             .gradient_in(gradient);
  if (!head.layer.autograd()) {
    loss.forward_workspace(Bytes(chunk_workspace(head)));
    return;
  }
  const double waiting = head.trains() ? head.weights() * head.layer.element : 0.0;
  const Tensor of_weights = head.layer.add(waiting, Role::LogitsCopy);
  loss.writes(of_weights).saves(of_weights);
  const double e = head.layer.element, cast = head.casts_weights() ? head.weights() * e : 0.0;
  loss.forward_workspace(
      Bytes(head.logits() / head.chunks() * (e < kFp32Bytes ? 2.0 * e + kFp32Bytes : e) + cast));
}

// `count` fp32 copies at once, the last of them in the backward pass.
void copies(const Head& head, Dataflow::Step& loss, Tensor made, double count) {
  const double high = head.logits() * kFp32Bytes;
  const Tensor kept = head.layer.add(std::max(0.0, count - 1.0) * high, Role::LogitsCopy);
  loss.writes(kept).saves(kept).gradient_in(made).backward_workspace(
      Bytes(std::min(1.0, count) * high));
}

void autograd_loss(const Head& head, Tensor made) {
  Dataflow::Step& loss = head.layer.flow.step(Module::Loss).reads(made).saves(made);
  if (!head.framework().loss.fp32_logits) {
    if (head.framework().loss.gradient_in_place) loss.gradient_in(made);
    return;
  }
  copies(head, loss, made, fp32_copies(head));
}

// One kernel for the logits' loss, or chunks of tokens whose gradients wait.
void fused_loss(const Head& head, Tensor made) {
  Dataflow::Step& loss = head.layer.flow.step(Module::Loss).reads(made).saves(made);
  if (head.framework().loss.fused != FusedLoss::Logits) return copies(head, loss, made, 2.0);
  loss.forward_workspace(Bytes(2.0 * kFp32Bytes * head.logits() / head.chunks()));
}

// What is kept of the logits is their exponentials in fp32, from which their gradient is made.
void plain_loss(const Head& head, Tensor made) {
  const Bytes high(head.logits() * kFp32Bytes);
  Tensor kept = made;
  if (head.layer.element < kFp32Bytes) {
    kept = head.layer.flow.add(high, Role::LogitsCopy);
    // The sums of the backward pass are freed before the gradient, which is larger, is made.
    head.layer.flow.step(Module::Loss).reads(made).writes(kept).saves(kept);
    head.layer.flow.step(Module::Loss)
        .reads(kept)
        .forward_workspace(Bytes(row_sums(head, head.tokens)));
    return;
  }
  head.layer.flow.step(Module::Loss)
      .reads(made)
      .saves(made)
      .gradient_in(made)
      .forward_workspace(Bytes(row_sums(head, head.tokens)))
      .backward_workspace(Bytes(row_sums_backward(head, head.tokens)));
}

void loss_of_logits(const Head& head, Tensor normed) {
  const Tensor made = head.layer.add(head.logits() * head.layer.element, Role::Logits);
  head.layer.column_gemm(Module::Head, normed, {made}, head.weight(), true);
  if (head.strategy().fused_cross_entropy) return fused_loss(head, made);
  if (!head.layer.autograd()) return plain_loss(head, made);
  autograd_loss(head, made);
}

// Inputs of the dense layer, its activation and norm, of the pooler, its activation and the
// classifier.
Bytes saved_by_encoder_head(const Head& head) {
  const double linear = head.trains() ? head.layer.input_bytes() : 0.0, e = head.layer.element;
  const double sequences = head.model().encoder->next_sentence ? head.strategy().micro_batch : 0.0;
  return Bytes(head.model().hidden_size *
               (head.tokens * (linear + 2.0 * e) + sequences * (2.0 * linear + e)));
}

void add_head(const Head& head, Tensor stream) {
  const Tensor normed =
      head.model().final_norm && !head.model().encoder ? add_norm(head.layer, stream) : stream;
  if (head.model().encoder) head.layer.save_extra(Module::Head, saved_by_encoder_head(head));
  const bool chunked =
      head.strategy().fused_cross_entropy && (head.framework().loss.fused == FusedLoss::Gradient ||
                                              head.framework().loss.fused == FusedLoss::Recomputed);
  chunked ? loss_of_chunks(head, normed) : loss_of_logits(head, normed);
}

// The hidden state and the next token's embedding, normalised and joined, give the stream of a
// further prediction.
void predict_further(const Head& head) {
  const Tensor stream = head.layer.flow.add(head.layer.residual());
  head.layer.flow.step(Module::Head).writes(stream);
  head.layer.save_extra(Module::Head, 2.0 * head.layer.residual());
  add_head(head, stream);
}

}  // namespace

Dataflow embedding_dataflow(const Transformer& model, const Strategy& strategy,
                            const Framework& framework) {
  LayerDataflow layer(model, strategy, framework);
  const bool divided = strategy.tp > 1, cast = framework.storage.gradient_bytes > layer.element;
  const double ids = divided ? layer.tokens * (kTokenId + kFlag) : 0.0,
               rows = layer.tokens * model.hidden_size;
  const double positions = model.position == Position::Learned
                               ? static_cast<double>(model.seq_len) * model.hidden_size
                               : 0.0;
  const double gradients =
      (divided ? rows * layer.element : 0.0) + (cast ? rows * kFp32Bytes : 0.0);
  const Tensor looked_up = layer.add(rows * layer.stream_element());
  Dataflow::Step& lookup =
      layer.flow.step(Module::Embedding).writes(looked_up).forward_workspace(Bytes(ids));
  if (!layer.autograd())
    lookup.backward_workspace(
        Bytes(std::max(positions * (layer.element + (cast ? kFp32Bytes : 0.0)), ids + gradients)));
  Tensor stream = layer.reduce(Module::Embedding, looked_up);
  if (model.embedding_norm) stream = add_norm(layer, stream);
  if (framework.dropout > 0.0)
    layer.save_extra(Module::Embedding, Bytes(layer.residual_elements()));
  layer.flow.set_output(stream);
  return std::move(layer.flow);
}

Dataflow head_dataflow(const Transformer& model, const Strategy& strategy,
                       const Framework& framework) {
  LayerDataflow layer(model, strategy, framework);
  const auto tokens = static_cast<std::int64_t>(layer.tokens);
  const Head head{.layer = layer,
                  .tokens = static_cast<double>(predicted_of(model, tokens)),
                  .columns = static_cast<double>(model.vocab_size / strategy.tp)};
  const Tensor stream = layer.flow.add(layer.residual());
  layer.flow.set_input(stream);
  add_head(head, stream);
  for (int i = 0; i < model.mtp_layers; ++i) predict_further(head);
  return std::move(layer.flow);
}

}  // namespace llmsim::sim
