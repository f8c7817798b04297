#include "runtime/model/mla_inputs.h"

#include <utility>

#include <ATen/ATen.h>

#include "runtime/kernels/linear.h"
#include "runtime/model/block.h"

namespace llmsim::runtime {

MlaInputs::MlaInputs(const BlockContext& context, ParameterUnit& unit, std::size_t& next)
    : context_(context), shape_(context.shape.mla), rank_(context.model.mla->kv_lora_rank) {
  const auto take = [&] { return Parameter(unit, next++); };
  if (context.model.mla->q_lora_rank) query_down_ = take(), query_norm_ = take();
  mla_down_ = take();
  mla_norm_ = take();
  queries_ = take();
  keys_values_ = take();
}

void MlaInputs::down(const at::Tensor& normed, MlaTape& tape) const {
  if (has_query_down()) {
    tape.query_down = linear_forward(normed, query_down_.weight(), {});
    tape.query_norm = norm_of(tape.query_down, query_norm_);
  }
  tape.mla_down = linear_forward(normed, mla_down_.weight(), {});
  tape.mla_norm = norm_of(ranked(tape.mla_down), mla_norm_);
}

Heads MlaInputs::up(const at::Tensor& normed, const MlaTape& tape) const {
  Heads heads;
  heads.q = mla_queries(queries(normed, tape), shape_, context_.rotary);
  KeysAndValues keys_values = keys(tape);
  heads.k = std::move(keys_values.k), heads.v = std::move(keys_values.v);
  return heads;
}

NormOutput MlaInputs::norm_of(const at::Tensor& x, const Parameter& weight) const {
  return norm(context_.model.norm, x, weight.weight(), {});
}

at::Tensor MlaInputs::norm_gradient(at::Tensor dy, const at::Tensor& x, const NormOutput& forward,
                                    const Parameter& weight) const {
  return norm_backward(context_.model.norm, std::move(dy), x, forward, weight.weight(), {},
                       weight.gradient(), {});
}

at::Tensor MlaInputs::ranked(const at::Tensor& latents) const {
  return latents.narrow(1, 0, rank_);
}
at::Tensor MlaInputs::rotary_keys(const at::Tensor& latents) const {
  return latents.narrow(1, rank_, shape_.rotary);
}

// Normalised latents and rotary keys travel as one.
MlaInputs::Latents MlaInputs::shared(const MlaTape& tape) const {
  if (!context_.tensor.divides_tokens())
    return {.normed = tape.mla_norm.y, .rotary_keys = rotary_keys(tape.mla_down)};
  const at::Tensor whole =
      context_.tensor.column_input(at::cat({tape.mla_norm.y, rotary_keys(tape.mla_down)}, 1));
  return {.normed = ranked(whole), .rotary_keys = rotary_keys(whole)};
}

at::Tensor MlaInputs::queries(const at::Tensor& normed, const MlaTape& tape) const {
  const at::Tensor& input = has_query_down() ? tape.query_norm.y : normed;
  return linear_forward(context_.tensor.column_input(input), queries_.weight(), {});
}

KeysAndValues MlaInputs::keys(const MlaTape& tape) const {
  const Latents latents = shared(tape);
  return mla_keys(linear_forward(latents.normed, keys_values_.weight(), {}), latents.rotary_keys,
                  shape_, context_.rotary);
}

at::Tensor MlaInputs::backward(Heads gradients, at::Tensor normed, MlaTape tape) const {
  at::Tensor queries = mla_queries_backward(gradients.q, shape_, context_.rotary);
  gradients.q.reset();
  const at::Tensor latents =
      mla_backward({.k = std::move(gradients.k), .v = std::move(gradients.v)}, tape);
  at::Tensor dx = queries_backward(std::move(queries), normed, tape);
  dx.addmm_(latents, mla_down_.weight());
  add_linear_weight_gradient(latents, normed, mla_down_.gradient(), {});
  return dx;
}

// Gradient of what the GEMM down gave.
at::Tensor MlaInputs::mla_backward(KeysAndValues gradients, MlaTape& tape) const {
  at::Tensor whole = at::empty({shape_.tokens(), rank_ + shape_.rotary}, gradients.k.options());
  at::Tensor rows = mla_keys_backward(gradients, rotary_keys(whole), shape_, context_.rotary);
  gradients = {};
  add_linear_weight_gradient(rows, shared(tape).normed, keys_values_.gradient(), {});
  tape.mla_norm.y.reset();
  ranked(whole).copy_(linear_data_gradient(rows, keys_values_.weight()));
  rows.reset();
  at::Tensor own = context_.tensor.column_gradient(std::move(whole));
  whole.reset();
  ranked(own).copy_(norm_gradient(ranked(own), ranked(tape.mla_down), tape.mla_norm, mla_norm_));
  tape.mla_norm = {}, tape.mla_down.reset();
  return own;
}

at::Tensor MlaInputs::queries_backward(at::Tensor gradient, const at::Tensor& normed,
                                       MlaTape& tape) const {
  if (!has_query_down()) return up_gradient(std::move(gradient), normed);
  at::Tensor dx = up_gradient(std::move(gradient), tape.query_norm.y);
  tape.query_norm.y.reset();
  dx = norm_gradient(std::move(dx), tape.query_down, tape.query_norm, query_norm_);
  tape.query_norm = {}, tape.query_down.reset();
  add_linear_weight_gradient(dx, normed, query_down_.gradient(), {});
  return linear_data_gradient(dx, query_down_.weight());
}

// Of the queries' GEMM, from this rank's rows to all ranks' sum.
at::Tensor MlaInputs::up_gradient(at::Tensor gradient, const at::Tensor& input) const {
  at::Tensor dx = linear_data_gradient(gradient, queries_.weight());
  add_linear_weight_gradient(gradient, context_.tensor.column_input(input), queries_.gradient(),
                             {});
  gradient.reset();
  return context_.tensor.column_gradient(std::move(dx));
}

}  // namespace llmsim::runtime
