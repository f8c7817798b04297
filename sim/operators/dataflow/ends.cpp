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

class HeadDataflow {
 public:
  HeadDataflow(const Transformer& model, const Strategy& strategy, const Framework& framework)
      : model_(model),
        strategy_(strategy),
        framework_(framework),
        layer_(model, strategy, framework),
        tokens_(static_cast<double>(predicted_of(model, static_cast<std::int64_t>(layer_.tokens)))),
        columns_(static_cast<double>(model.vocab_size / strategy.tp)) {}

  Dataflow flow() {
    const Tensor stream = layer_.flow.add(layer_.residual());
    layer_.flow.set_input(stream);
    head(stream);
    for (int i = 0; i < model_.mtp_layers; ++i) predict_further();
    return std::move(layer_.flow);
  }

 private:
  bool divided() const { return strategy_.tp > 1; }
  bool trains() const { return !strategy_.adapters; }
  double logits() const { return tokens_ * columns_; }
  LayerWeight weight() const {
    return {.rows = model_.hidden_size, .columns = model_.vocab_size / strategy_.tp};
  }
  double weights() const { return columns_ * model_.hidden_size; }

  void head(Tensor stream) {
    const Tensor normed = model_.final_norm && !model_.encoder ? add_norm(layer_, stream) : stream;
    if (model_.encoder) layer_.save_extra(Module::Head, saved_by_encoder_head());
    const bool chunked =
        strategy_.fused_cross_entropy && (framework_.loss.fused == FusedLoss::Gradient ||
                                          framework_.loss.fused == FusedLoss::Recomputed);
    chunked ? loss_of_chunks(normed) : loss_of_logits(normed);
  }

  // Inputs of the dense layer, its activation and norm, of the pooler, its activation and the
  // classifier.
  Bytes saved_by_encoder_head() const {
    const double linear = trains() ? layer_.input_bytes() : 0.0, e = layer_.element;
    const double sequences = model_.encoder->next_sentence ? strategy_.micro_batch : 0.0;
    return Bytes(model_.hidden_size *
                 (tokens_ * (linear + 2.0 * e) + sequences * (2.0 * linear + e)));
  }

  // The hidden state and the next token's embedding, normalised and joined, give the stream of a
  // further prediction.
  void predict_further() {
    const Tensor stream = layer_.flow.add(layer_.residual());
    layer_.flow.step(Module::Head).writes(stream);
    layer_.save_extra(Module::Head, 2.0 * layer_.residual());
    head(stream);
  }

  void loss_of_logits(Tensor normed) {
    const Tensor made = layer_.add(logits() * layer_.element, Role::Logits);
    layer_.column_gemm(Module::Head, normed, {made}, weight(), true);
    if (strategy_.fused_cross_entropy) return fused_loss(made);
    if (!layer_.autograd()) return plain_loss(made);
    autograd_loss(made);
  }

  // What is kept of the logits is their exponentials in fp32, from which their gradient is made.
  void plain_loss(Tensor made) {
    const Bytes high(logits() * kFp32Bytes);
    Tensor kept = made;
    if (layer_.element < kFp32Bytes) {
      kept = layer_.flow.add(high, Role::LogitsCopy);
      // The sums of the backward pass are freed before the gradient, which is larger, is made.
      layer_.flow.step(Module::Loss).reads(made).writes(kept).saves(kept);
      layer_.flow.step(Module::Loss).reads(kept).forward_workspace(Bytes(row_sums(tokens_)));
      return;
    }
    layer_.flow.step(Module::Loss)
        .reads(made)
        .saves(made)
        .gradient_in(made)
        .forward_workspace(Bytes(row_sums(tokens_)))
        .backward_workspace(Bytes(row_sums_backward(tokens_)));
  }

  // Of the rows of `tokens` tokens: a temporary of their exponentials; over tensor ranks ids, flags
  // and three sums instead.
  double row_sums(double tokens) const {
    if (!divided())
      return std::max(tokens * columns_ * kFp32Bytes, tokens * kFp32Bytes + kFp32Bytes);
    return tokens * (kTokenId + kFlag + 3.0 * kFp32Bytes);
  }
  double row_sums_backward(double tokens) const {
    return divided() ? tokens * (kTokenId + kFlag + kFp32Bytes) : tokens * kFp32Bytes;
  }

  void autograd_loss(Tensor made) {
    Dataflow::Step& loss = layer_.flow.step(Module::Loss).reads(made).saves(made);
    if (!framework_.loss.fp32_logits) {
      if (framework_.loss.gradient_in_place) loss.gradient_in(made);
      return;
    }
    copies(loss, made, fp32_copies());
  }

  double fp32_copies() const {
    const bool shared = divided() && framework_.loss.parallel_logit_copies > 0.0;
    return shared ? framework_.loss.parallel_logit_copies : framework_.loss.fp32_logit_copies;
  }

  // `count` fp32 copies at once, the last of them in the backward pass.
  void copies(Dataflow::Step& loss, Tensor made, double count) {
    const double high = logits() * kFp32Bytes;
    const Tensor kept = layer_.add(std::max(0.0, count - 1.0) * high, Role::LogitsCopy);
    loss.writes(kept).saves(kept).gradient_in(made).backward_workspace(
        Bytes(std::min(1.0, count) * high));
  }

  // One kernel for the logits' loss, or chunks of tokens whose gradients wait.
  void fused_loss(Tensor made) {
    Dataflow::Step& loss = layer_.flow.step(Module::Loss).reads(made).saves(made);
    if (framework_.loss.fused != FusedLoss::Logits) return copies(loss, made, 2.0);
    loss.forward_workspace(Bytes(2.0 * kFp32Bytes * logits() / chunks()));
  }

  // Logits of a chunk of tokens at a time.
  void loss_of_chunks(Tensor normed) {
    Tensor input = normed;
    if (layer_.gathers) {
      input = layer_.flow.add(layer_.whole_residual());
      layer_.flow.step(Module::Head).reads(normed).writes(input);
    }
    if (framework_.loss.fused == FusedLoss::Recomputed) {
      layer_.flow.step(Module::Loss)
          .reads(input)
          .saves(normed)
          .forward_workspace(recomputed_chunk())
          .backward_workspace(recomputed_chunk());
      return;
    }
    const Tensor gradient = layer_.add(layer_.size(input).value(), Role::Statistic);
    Dataflow::Step& loss = layer_.flow.step(Module::Loss)
                               .reads(input)
                               .writes(gradient)
                               .saves(gradient)
                               .gradient_in(gradient);
    if (!layer_.autograd()) {
      loss.forward_workspace(Bytes(chunk_workspace()));
      return;
    }
    const double waiting = trains() ? weights() * layer_.element : 0.0;
    const Tensor of_weights = layer_.add(waiting, Role::LogitsCopy);
    loss.writes(of_weights).saves(of_weights);
    const double e = layer_.element, cast = casts_weights() ? weights() * e : 0.0;
    loss.forward_workspace(
        Bytes(logits() / chunks() * (e < kFp32Bytes ? 2.0 * e + kFp32Bytes : e) + cast));
  }

  bool casts_weights() const {
    return framework_.casts_weights_per_microbatch && layer_.element < kFp32Bytes;
  }
  double chunks() const {
    return static_cast<double>(loss_chunks(model_, framework_, static_cast<std::int64_t>(tokens_)));
  }
  // Its logits with their fp32 copies or their gradient, and the gradient of the head's weights: of
  // the chunk and the sum.
  Bytes recomputed_chunk() const {
    const double e = layer_.element, in_place = framework_.loss.gradient_in_place ? 0.0 : e;
    const double beside = framework_.loss.fp32_logits ? fp32_copies() * kFp32Bytes : in_place;
    return Bytes(logits() * (e + beside) / chunks() + (trains() ? 2.0 * weights() * e : 0.0));
  }

  // The largest chunk from its logits to their gradient, and that of the head's weights.
  double chunk_workspace() const {
    const auto whole = static_cast<std::int64_t>(tokens_);
    const std::int64_t count = loss_chunks(model_, framework_, whole);
    const double chunk = std::min(tokens_, static_cast<double>((whole + count - 1) / count)),
                 e = layer_.element;
    const double low = chunk * columns_ * e, high = chunk * columns_ * kFp32Bytes,
                 loss = 2.0 * kFp32Bytes;
    const double of_weights = layer_.weight_gradient_workspace(Module::Head, weight()).value();
    const double forward =
        (e < kFp32Bytes ? std::max(low, row_sums(chunk)) : row_sums(chunk)) + high;
    const double backward =
        high + std::max(row_sums_backward(chunk), e < kFp32Bytes ? low : 0.0) + kFp32Bytes;
    return std::max({forward, backward, low + kFp32Bytes + of_weights}) + loss - kFp32Bytes;
  }

  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  LayerDataflow layer_;
  double tokens_;   // whose logits are made
  double columns_;  // of the logits on this rank
};

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
  const Tensor looked_up = layer.flow.add(layer.whole_residual());
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
  return HeadDataflow(model, strategy, framework).flow();
}

}  // namespace llmsim::sim
