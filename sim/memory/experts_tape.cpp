#include "sim/memory/experts_tape.h"

#include "sim/base/dtype.h"
#include "sim/memory/shards.h"

namespace llmsim::sim {
namespace {

constexpr double kIndex = 8.0;

}  // namespace

ExpertsTape::ExpertsTape(const Transformer& model, const Strategy& strategy, const Framework& framework, Bytes residual)
    : model_(model),
      shape_(expert_shape(model, strategy, framework)),
      e_(size_of(activation_dtype(strategy.precision)).value()),
      gradient_(storage_of(strategy, framework).gradient_bytes),
      gathers_(strategy.sequence_parallel && strategy.tp > 1 && !shape_.routes_shards),
      exchanges_(strategy.ep > 1),
      sharing_ranks_(shape_.routes_shards ? strategy.tp : 1.0),
      width_(model.gated_mlp ? 2 : 1),
      residual_(residual) {}

Bytes ExpertsTape::index() const { return Bytes(static_cast<double>(shape_.rows) * kIndex); }
Bytes ExpertsTape::probabilities() const {
  return Bytes(static_cast<double>(shape_.tokens) * model_.moe->num_experts * kFp32Bytes);
}

void ExpertsTape::inner(Ledger& ledger, bool keeps) const {
  if (gathers_) ledger.take(whole());
  route(ledger, keeps);
  ledger.take(row());
  if (!keeps) ledger.give(index());  // tokens
  if (exchanges_) ledger.pass(Bytes(2.0 * kIndex * model_.moe->num_experts));
  send(ledger);
  if (shares()) share(ledger, keeps);
  if (gathers_) ledger.give(whole());
  visit(ledger, keeps);
}

void ExpertsTape::route(Ledger& ledger, bool keeps) const {
  const Bytes logits = tokens(model_.moe->num_experts);
  const Bytes high_precision_weights(static_cast<double>(shape_.rows) * kFp32Bytes);
  ledger.take(logits);
  if (e_ < kFp32Bytes) {
    ledger.take(probabilities());  // logits in fp32
    ledger.give(logits);
  }
  replace(ledger, probabilities());
  ledger.take(high_precision_weights + index());  // chosen
  if (e_ < kFp32Bytes) {
    ledger.take(rows(1.0));
    ledger.give(high_precision_weights);
  }
  if (!keeps) ledger.give(probabilities());
  ledger.take(2.0 * index());  // sorted, slots
  ledger.give(index());
  ledger.take(index());  // tokens
  if (!keeps) ledger.give(index());
}

// Rows on the way to other ranks or back, and sorted.
void ExpertsTape::send(Ledger& ledger) const {
  if (!exchanges_) return;
  replace(ledger, row());
  if (shape_.experts > 1) replace(ledger, row());
}

void ExpertsTape::share(Ledger& ledger, bool keeps) const {
  ledger.take(shared_input());
  ledger.take(shared_up());
  if (!keeps) ledger.give(shared_input());
  ledger.take(shared_silu());
  ledger.take(shared_activation());
  if (!keeps) ledger.give(shared_up() + shared_silu());
  if (gates()) ledger.take(tokens(1.0));
}

void ExpertsTape::visit(Ledger& ledger, bool keeps) const {
  ledger.take(up());
  if (!keeps) ledger.give(row());
  ledger.take(silu());
  ledger.take(activation());
  if (!keeps) ledger.give(up() + silu());
  ledger.take(row());
  if (!keeps) ledger.give(activation());
  send(ledger);
  replace(ledger, row());  // by token
  if (!keeps) ledger.give(index());
  if (gates() && keeps) shared_output(ledger);
}

void ExpertsTape::shared_output(Ledger& ledger) const {
  ledger.take(shared_whole());
  if (!shape_.routes_shards) return;
  ledger.take(whole());
  ledger.give(shared_whole());
}

void ExpertsTape::outer(Ledger& ledger, bool keeps) const {
  ledger.take(whole());
  if (shares() && !(gates() && keeps)) {
    shared_output(ledger);
    ledger.give(whole());
  }
  if (!keeps) {
    ledger.give(row() + rows(1.0));
    if (shares()) ledger.give(shared_activation());
    if (gates()) ledger.give(tokens(1.0));
  }
  if (!gathers_) return;
  ledger.take(residual_);
  ledger.give(whole());
}

Bytes ExpertsTape::dropped(const RecomputedModules& modules) const {
  Bytes size;
  if (modules.moe) {
    size += probabilities() + 3.0 * index() + rows(1.0) + 2.0 * row() + up();
    if (shares()) size += shared_input() + shared_up() + shared_gate();
  }
  if (shares() && !modules.moe && modules.shared_experts) size += shared_input() + shared_up() + shared_gate();
  if (modules.moe || modules.activation || modules.expert_activation) size += activation() + silu();
  if (shares() && (modules.moe || modules.activation || modules.shared_experts)) size += shared_activation() + shared_silu();
  return size;
}

void ExpertsTape::restore(Ledger& ledger, const RecomputedModules& modules) const {
  if (modules.moe) return inner(ledger, true);
  if (shares() && modules.shared_experts) {
    if (gathers_) ledger.take(whole());
    share(ledger, true);
    if (gates()) shared_output(ledger);
    if (gathers_) ledger.give(whole());
  }
  if (modules.activation || modules.expert_activation) ledger.take(activation() + silu());
  if (shares() && modules.activation && !modules.shared_experts) ledger.take(shared_activation() + shared_silu());
}

void ExpertsTape::backward(Ledger& ledger) const {
  if (gathers_) ledger.take(whole());
  ledger.take(rows(1.0));  // gradients of the weights
  ledger.pass(whole());
  ledger.give(rows(1.0));  // weights
  if (shares()) shared_backward(ledger);
  if (gathers_) ledger.give(whole());
  rows_backward(ledger);
  ledger.take(whole());
  ledger.give(row());
  input_backward(ledger);
  ledger.give(residual_);  // the norm's output
  if (!gathers_) return;
  ledger.take(residual_);
  ledger.give(whole());
}

void ExpertsTape::shared_backward(Ledger& ledger) const {
  const double f = static_cast<double>(shape_.shared_ffn), h = model_.hidden_size;
  if (gates()) {
    ledger.take(tokens(1.0));
    ledger.pass(whole());
    ledger.pass(tokens(1.0));
    ledger.give(tokens(1.0));  // the gate; its gradient waits
  }
  if (shape_.routes_shards) ledger.take(shared_whole());
  if (shape_.routes_shards && gates()) ledger.give(whole());
  ledger.take(shared_activation());
  weight_gradient(ledger, h * f, model_.bias.mlp ? h : 0.0);
  if (shape_.routes_shards || gates()) ledger.give(shared_whole());
  ledger.give(shared_activation());
  ledger.take(shared_up());
  ledger.give(shared_activation() + shared_up() + shared_silu());
}

void ExpertsTape::rows_backward(Ledger& ledger) const {
  const double f = static_cast<double>(shape_.ffn), h = model_.hidden_size;
  const bool bias = model_.moe->expert_bias;
  replace(ledger, row());  // by expert
  send(ledger);
  ledger.take(activation());
  weight_gradient(ledger, h * f, bias ? h : 0.0);
  ledger.give(row() + activation());
  ledger.take(up());
  ledger.give(activation() + up() + silu());
  ledger.take(row());
  weight_gradient(ledger, width_ * f * h, bias ? width_ * f : 0.0);
  ledger.give(row() + up());
  send(ledger);
  replace(ledger, row());      // by token
  ledger.give(2.0 * index());  // slots and tokens
}

void ExpertsTape::input_backward(Ledger& ledger) const {
  const double h = model_.hidden_size, experts = model_.moe->num_experts;
  const Bytes high_precision_weights(static_cast<double>(shape_.rows) * kFp32Bytes);
  if (gathers_) ledger.take(whole());
  if (e_ < kFp32Bytes) {
    ledger.take(high_precision_weights);
    ledger.give(rows(1.0));
  }
  ledger.take(probabilities());
  ledger.give(high_precision_weights + index());
  replace(ledger, probabilities());
  ledger.give(probabilities());
  if (e_ < kFp32Bytes) {
    ledger.take(tokens(experts));
    ledger.give(probabilities());
  }
  weight_gradient(ledger, experts * h, model_.moe->router_bias ? experts : 0.0);
  ledger.give(tokens(experts));
  if (gates()) weight_gradient(ledger, h, 0.0);
  if (gates()) ledger.give(tokens(1.0));
  if (shares()) shared_input_backward(ledger);
  if (gathers_) ledger.give(whole());
}

void ExpertsTape::shared_input_backward(Ledger& ledger) const {
  const double width = width_ * static_cast<double>(shape_.shared_ffn);
  if (shape_.routes_shards) ledger.take(shared_whole());
  weight_gradient(ledger, width * model_.hidden_size, model_.bias.mlp ? width : 0.0);
  ledger.give(shared_up() + shared_input());
  if (!shape_.routes_shards) return;
  ledger.take(whole());
  ledger.give(shared_whole() + whole());
}

// GEMMs in the activations' format and their cast, and sums over tokens.
void ExpertsTape::weight_gradient(Ledger& ledger, double elements, double bias) const {
  const bool wide = gradient_ > e_;
  if (wide) ledger.pass(Bytes(elements * (e_ + gradient_)));
  if (bias > 0.0) ledger.pass(Bytes(bias * (e_ + (wide ? gradient_ : 0.0))));
}

// By another tensor of its size.
void ExpertsTape::replace(Ledger& ledger, Bytes size) {
  ledger.take(size);
  ledger.give(size);
}

}  // namespace llmsim::sim
