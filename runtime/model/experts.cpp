#include "runtime/model/experts.h"

#include <utility>

#include <ATen/ATen.h>

#include "runtime/kernels/activation.h"
#include "runtime/kernels/linear.h"
#include "runtime/model/block.h"

namespace llmsim::runtime {
namespace {

// One row for each of a token's choices, by token.
at::Tensor by_token(at::Tensor rows, const RowOrder& order) {
  return at::empty_like(rows).index_copy_(0, order.slots, rows);
}

at::Tensor choices(const at::Tensor& rows, std::int64_t top_k) {
  return rows.view({-1, top_k, rows.size(1)});
}

// The sum over a row of the product of two, into (t) of `into`.
void row_gemms(at::Tensor into, const at::Tensor& a, const at::Tensor& b) {
  at::sum_out(into, at::mul(a, b), std::vector<std::int64_t>{1});
}

}  // namespace

Experts::Experts(const BlockContext& context, ParameterUnit& unit, std::size_t first,
                 ParameterUnit& experts, std::size_t first_expert)
    : context_(context) {
  const sim::Moe& moe = *context.model.moe;
  const auto take = [](ParameterUnit& from, std::size_t& next, bool bias) {
    Linear linear{.weight = Parameter(from, next++), .bias = {}};
    if (bias) linear.bias = Parameter(from, next++);
    return linear;
  };
  router_ = take(unit, first, moe.router_bias);
  if (context.shape.shared_ffn > 0) {
    shared_up_ = take(unit, first, context.model.bias.mlp);
    shared_down_ = take(unit, first, context.model.bias.mlp);
    if (moe.shared_expert_gate) gate_ = take(unit, first, false);
  }
  up_ = take(experts, first_expert, moe.expert_bias);
  down_ = take(experts, first_expert, moe.expert_bias);
}

void Experts::inner(const at::Tensor& normed, ExpertsTape& tape, Keep keep) const {
  at::Tensor y = routed(normed);
  route(y, tape, keep);
  tape.rows = y.index_select(0, tape.order.tokens);
  if (keep == Keep::Nothing) tape.order.tokens.reset();
  tape.load = context_.experts.load(tape.order.rows, context_.balanced_experts, y.device());
  tape.rows = context_.experts.to_experts(std::move(tape.rows), tape.load);
  if (has_shared()) shared_inner(y, tape, keep);
  y.reset();
  visit(tape, keep);
}

bool Experts::routes_shards() const { return context_.shape.routes_shards; }

// The tokens that this rank routes.
at::Tensor Experts::routed(const at::Tensor& normed) const {
  return routes_shards() ? normed : context_.tensor.column_input(normed);
}

void Experts::route(const at::Tensor& y, ExpertsTape& tape, Keep keep) const {
  const sim::Moe& moe = *context_.model.moe;
  tape.choice = choose_experts(linear_forward(y, router_.weight.weight(), router_.bias.weight()),
                               moe.top_k, context_.balanced_experts);
  if (keep == Keep::Nothing) tape.choice.probabilities.reset();
  tape.order = order_by_expert(tape.choice.chosen, moe.num_experts, context_.balanced_experts);
  if (keep == Keep::Nothing) tape.choice.chosen.reset();
}

void Experts::shared_inner(const at::Tensor& y, ExpertsTape& tape, Keep keep) const {
  if (routes_shards()) tape.shared_input = context_.tensor.column_input(y);
  tape.shared_up = linear_forward(routes_shards() ? tape.shared_input : y,
                                  shared_up_.weight.weight(), shared_up_.bias.weight());
  if (keep == Keep::Nothing) tape.shared_input.reset();
  if (has_gate()) tape.gate = linear_forward(y, gate_.weight.weight(), {}).sigmoid_();
}

void Experts::activate(ExpertsTape& tape) const {
  ActivationOutput out = activation(context_.model.gated_mlp, tape.up);
  tape.activation = std::move(out.y), tape.silu = std::move(out.silu);
}

void Experts::activate_shared(ExpertsTape& tape) const {
  ActivationOutput out = activation(context_.model.gated_mlp, tape.shared_up);
  tape.shared_activation = std::move(out.y), tape.shared_silu = std::move(out.silu);
}

// From the rows to what the experts make of them, by token.
void Experts::visit(ExpertsTape& tape, Keep keep) const {
  const bool frees = keep == Keep::Nothing;
  tape.up = expert_linear(tape.rows, up_.weight.weight(), up_.bias.weight(), tape.load.rows);
  if (frees) tape.rows.reset();
  activate(tape);
  if (frees) tape.up.reset(), tape.silu.reset();
  at::Tensor out =
      expert_linear(tape.activation, down_.weight.weight(), down_.bias.weight(), tape.load.rows);
  if (frees) tape.activation.reset();
  out = context_.experts.from_experts(std::move(out), tape.load);
  tape.returned = by_token(std::move(out), tape.order);
  if (frees) tape.order.slots.reset();
  if (has_shared()) activate_shared(tape);
  if (frees) tape.shared_up.reset(), tape.shared_silu.reset();
  if (has_gate() && !frees) tape.shared_out = shared_output(tape);
}

at::Tensor Experts::shared_output(const ExpertsTape& tape) const {
  at::Tensor out = linear_forward(tape.shared_activation, shared_down_.weight.weight(),
                                  shared_down_.bias.weight());
  return routes_shards() ? context_.tensor.row_output(std::move(out)) : out;
}

at::Tensor Experts::outer(ExpertsTape& tape, Keep keep) const {
  at::Tensor y = combined_rows(tape.returned, tape.choice.weights);
  if (has_shared()) {
    const at::Tensor shared = tape.shared_out.defined() ? tape.shared_out : shared_output(tape);
    has_gate() ? y.addcmul_(shared, tape.gate) : y.add_(shared);
  }
  if (keep == Keep::Nothing) tape = {};
  return routes_shards() ? y : context_.tensor.row_output(std::move(y));
}

// Undefined members are recomputed: all of them, or those of the activations.
void Experts::drop(ExpertsTape& tape, const sim::RecomputedModules& modules) {
  if (modules.moe) {
    tape = {};
    return;
  }
  if (modules.activation || modules.expert_activation) tape.silu.reset(), tape.activation.reset();
  if (modules.activation || modules.shared_experts)
    tape.shared_silu.reset(), tape.shared_activation.reset();
  if (modules.shared_experts)
    tape.shared_input.reset(), tape.shared_up.reset(), tape.gate.reset(), tape.shared_out.reset();
}

void Experts::restore(const at::Tensor& normed, ExpertsTape& tape) const {
  if (!tape.returned.defined()) return inner(normed, tape, Keep::Tape);
  if (has_shared() && !tape.shared_up.defined()) restore_shared(routed(normed), tape);
  if (!tape.activation.defined()) activate(tape);
  if (has_shared() && !tape.shared_activation.defined()) activate_shared(tape);
}

void Experts::restore_shared(const at::Tensor& y, ExpertsTape& tape) const {
  shared_inner(y, tape, Keep::Tape);
  activate_shared(tape);
  if (has_gate()) tape.shared_out = shared_output(tape);
}

at::Tensor Experts::backward(const at::Tensor& dy, at::Tensor normed, ExpertsTape& tape) const {
  Waiting waiting;
  {
    const at::Tensor whole = routes_shards() ? dy : context_.tensor.row_gradient(dy);
    waiting.weights = at::empty_like(tape.choice.weights);
    combined_rows_backward(whole, tape.returned, tape.choice.weights, waiting.weights);
    tape.choice.weights.reset();
    if (has_shared()) shared_backward(whole, tape, waiting);
  }
  at::Tensor rows = rows_backward(std::move(tape.returned), tape);
  at::Tensor dx = at::sum(choices(rows, context_.model.moe->top_k), std::vector<std::int64_t>{1});
  rows.reset();
  input_backward(dx, routed(normed), tape, std::move(waiting));
  normed.reset();
  return routes_shards() ? dx : context_.tensor.column_gradient(std::move(dx));
}

void Experts::shared_backward(const at::Tensor& dy, ExpertsTape& tape, Waiting& waiting) const {
  at::Tensor gradient = dy;
  if (has_gate()) {
    at::Tensor of_gate = at::empty_like(tape.gate);
    row_gemms(of_gate.select(1, 0), dy, tape.shared_out);
    gradient = at::mul_out(tape.shared_out, dy, tape.gate);
    tape.shared_out.reset();
    waiting.gate = at::sigmoid_backward(of_gate, tape.gate);
    tape.gate.reset();
  }
  if (routes_shards()) gradient = context_.tensor.row_gradient(gradient);
  at::Tensor inner = linear_data_gradient(gradient, shared_down_.weight.weight());
  add_linear_weight_gradient(gradient, tape.shared_activation, shared_down_.weight.gradient(),
                             shared_down_.bias.gradient());
  gradient.reset(), tape.shared_activation.reset();
  waiting.shared_up = activation_backward(context_.model.gated_mlp, std::move(inner),
                                          tape.shared_up, tape.shared_silu);
  tape.shared_up.reset(), tape.shared_silu.reset();
}

// From the gradients of what the experts returned to those of what they were given, both by token.
at::Tensor Experts::rows_backward(at::Tensor gradient, ExpertsTape& tape) const {
  gradient = gradient.index_select(0, tape.order.slots);
  gradient = context_.experts.to_experts(std::move(gradient), tape.load);
  const std::vector<std::int64_t>& load = tape.load.rows;
  at::Tensor inner = expert_linear_data_gradient(gradient, down_.weight.weight(), load);
  add_expert_weight_gradient(gradient, tape.activation, down_.weight.gradient(),
                             down_.bias.gradient(), load);
  gradient.reset(), tape.activation.reset();
  gradient = activation_backward(context_.model.gated_mlp, std::move(inner), tape.up, tape.silu);
  tape.up.reset(), tape.silu.reset();
  at::Tensor rows = expert_linear_data_gradient(gradient, up_.weight.weight(), load);
  add_expert_weight_gradient(gradient, tape.rows, up_.weight.gradient(), up_.bias.gradient(), load);
  gradient.reset(), tape.rows.reset();
  rows = by_token(context_.experts.from_experts(std::move(rows), tape.load), tape.order);
  tape.order = {};
  return rows;
}

void Experts::input_backward(at::Tensor& dx, const at::Tensor& y, ExpertsTape& tape,
                             Waiting waiting) const {
  add_linear_gradient(
      dx, router_gradient(std::move(waiting.weights), std::move(tape.choice), y.scalar_type()), y,
      router_);
  if (!has_shared()) return;
  if (has_gate()) add_linear_gradient(dx, std::exchange(waiting.gate, {}), y, gate_);
  shared_input_backward(dx, y, tape, std::move(waiting.shared_up));
}

void Experts::shared_input_backward(at::Tensor& dx, const at::Tensor& y, ExpertsTape& tape,
                                    at::Tensor gradient) const {
  if (!routes_shards()) return add_linear_gradient(dx, gradient, y, shared_up_);
  at::Tensor of_all = linear_data_gradient(gradient, shared_up_.weight.weight());
  add_linear_weight_gradient(gradient, tape.shared_input, shared_up_.weight.gradient(),
                             shared_up_.bias.gradient());
  gradient.reset(), tape.shared_input.reset();
  dx.add_(context_.tensor.column_gradient(std::move(of_all)));
}

// dx += dy w, and the gradients of w.
void Experts::add_linear_gradient(at::Tensor& dx, const at::Tensor& dy, const at::Tensor& y,
                                  const Linear& linear) {
  dx.addmm_(dy, linear.weight.weight());
  add_linear_weight_gradient(dy, y, linear.weight.gradient(), linear.bias.gradient());
}

}  // namespace llmsim::runtime
