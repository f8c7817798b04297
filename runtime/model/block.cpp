#include "runtime/model/block.h"

#include <utility>

#include <ATen/ATen.h>

#include "runtime/kernels/activation.h"

namespace llmsim::runtime {

Block::Block(const BlockContext& context, ParameterUnit& unit, ExpertPlace experts)
    : context_(context) {
  const sim::Transformer& model = context.model;
  std::size_t next = 0;
  const auto take = [&](bool weight, bool bias) {
    Linear linear;
    if (weight) linear.weight = Parameter(unit, next++);
    if (weight && bias) linear.bias = Parameter(unit, next++);
    return linear;
  };
  attention_norm_ = take(model.norm_weight, model.bias.norm);
  if (model.mla)
    mla_.emplace(context, unit, next);
  else
    qkv_ = take(true, model.bias.qkv);
  projection_ = take(true, model.bias.attention_output);
  mlp_norm_ = take(model.norm_weight, model.bias.norm);
  if (experts.unit != nullptr) {
    experts_.emplace(context, unit, next, *experts.unit, experts.first);
    return;
  }
  up_ = take(true, model.bias.mlp);
  down_ = take(true, model.bias.mlp);
}

at::Tensor Block::forward(at::Tensor x, BlockTape& tape, const sim::Recompute& recompute) const {
  tape.x = std::move(x);
  if (recompute.kind == sim::RecomputeKind::Full) {
    BlockTape passing;
    passing.x = tape.x;
    attention_half(passing, Keep::Nothing);
    return mlp_half(passing, Keep::Nothing);
  }
  attention_half(tape, Keep::Tape);
  at::Tensor y = mlp_half(tape, Keep::Tape);
  if (recompute.kind == sim::RecomputeKind::Selective) drop(tape, recompute.modules);
  return y;
}

// From the residual stream to itself plus attention, which becomes tape.residual.
void Block::attention_half(BlockTape& tape, Keep keep) const {
  const bool frees = keep == Keep::Nothing;
  tape.attention_norm = norm_of(tape.x, attention_norm_);
  if (mla_) mla_->down(tape.attention_norm.y, tape.mla);
  make_heads(tape, keep);
  attend(tape);
  if (frees)
    tape.heads = {}, tape.attention.probabilities.reset(), tape.attention.log_sum_exp.reset();
  tape.residual = row(tape.attention.o, projection_).add_(tape.x);
  if (frees) tape.attention = {};
}

void Block::make_heads(BlockTape& tape, Keep keep) const {
  const bool frees = keep == Keep::Nothing;
  if (mla_) {
    tape.heads = mla_->up(tape.attention_norm.y, tape.mla);
    if (frees) tape.attention_norm = {}, tape.mla = {};
    return;
  }
  const at::Tensor z = column(tape.attention_norm.y, qkv_);
  if (frees) tape.attention_norm = {};
  tape.heads = split_heads(z, context_.shape.head_shape(), context_.rotary);
}

void Block::attend(BlockTape& tape) const {
  if (context_.attention_kernels != AttentionKernels::Blockwise) {
    tape.attention = library_attention(context_.attention_kernels, tape.heads);
    return;
  }
  tape.attention = context_.blockwise_attention ? blockwise_attention(tape.heads, context_.mask)
                                                : unfused_attention(tape.heads, context_.mask);
}

at::Tensor Block::mlp_half(BlockTape& tape, Keep keep) const {
  tape.mlp_norm = norm_of(tape.residual, mlp_norm_);
  if (experts_) return moe_half(tape, keep);
  mlp_inner(tape);
  if (keep == Keep::Nothing) tape.mlp_norm = {}, tape.up.reset(), tape.silu.reset();
  return row(tape.activation, down_).add_(tape.residual);
}

at::Tensor Block::moe_half(BlockTape& tape, Keep keep) const {
  experts_->inner(tape.mlp_norm.y, tape.experts, keep);
  if (keep == Keep::Nothing) tape.mlp_norm = {};
  return experts_->outer(tape.experts, keep).add_(tape.residual);
}

// Up to the input of the last GEMM: all that the backward pass needs.
void Block::mlp_inner(BlockTape& tape) const {
  if (!tape.up.defined()) tape.up = column(tape.mlp_norm.y, up_);
  ActivationOutput out = activation(context_.model.gated_mlp, tape.up);
  tape.activation = std::move(out.y), tape.silu = std::move(out.silu);
}

void Block::drop(BlockTape& tape, const sim::RecomputedModules& modules) {
  if (modules.core_attention)
    tape.attention.probabilities.reset(), tape.attention.log_sum_exp.reset();
  if (modules.mla_up && tape.mla.mla_down.defined()) tape.heads = {};
  if (modules.norms) tape.attention_norm.y.reset(), tape.mlp_norm.y.reset();
  if (modules.mlp) tape.up.reset();
  if (modules.mlp || modules.activation) tape.activation.reset(), tape.silu.reset();
  Experts::drop(tape.experts, modules);
}

at::Tensor Block::backward(at::Tensor dy, BlockTape tape) const {
  if (!tape.residual.defined()) attention_half(tape, Keep::Tape);
  restore_mlp(tape);
  at::Tensor dr = mlp_backward(dy, tape);
  dr.add_(dy);
  dy.reset();
  restore_attention(tape);
  dy = attention_backward(dr, tape);
  dy.add_(dr);
  return dy;
}

void Block::restore_mlp(BlockTape& tape) const {
  if (!tape.mlp_norm.y.defined()) tape.mlp_norm = norm_of(tape.residual, mlp_norm_);
  if (experts_) {
    experts_->restore(tape.mlp_norm.y, tape.experts);
  } else if (!tape.activation.defined()) {
    mlp_inner(tape);
  }
}

void Block::restore_attention(BlockTape& tape) const {
  if (!tape.attention_norm.y.defined()) tape.attention_norm = norm_of(tape.x, attention_norm_);
  if (!tape.heads.q.defined()) make_heads(tape, Keep::Tape);
  if (!tape.attention.probabilities.defined() && !tape.attention.log_sum_exp.defined())
    attend(tape);
}

at::Tensor Block::moe_backward(const at::Tensor& dy, BlockTape& tape) const {
  at::Tensor gradient = experts_->backward(dy, std::move(tape.mlp_norm.y), tape.experts);
  return norm_gradient(std::move(gradient), std::move(tape.residual), std::move(tape.mlp_norm),
                       mlp_norm_);
}

at::Tensor Block::mlp_backward(const at::Tensor& dy, BlockTape& tape) const {
  if (experts_) return moe_backward(dy, tape);
  at::Tensor gradient = row_backward(dy, std::move(tape.activation), down_);
  gradient = activation_backward(context_.model.gated_mlp, std::move(gradient), tape.up, tape.silu);
  tape.up.reset(), tape.silu.reset();
  gradient = column_backward(std::move(gradient), std::move(tape.mlp_norm.y), up_);
  return norm_gradient(std::move(gradient), std::move(tape.residual), std::move(tape.mlp_norm),
                       mlp_norm_);
}

at::Tensor Block::attention_backward(const at::Tensor& dy, BlockTape& tape) const {
  const bool blockwise = context_.blockwise_attention;
  at::Tensor gradient = row_backward(dy, tape.attention.o, projection_);
  if (!blockwise) tape.attention.o.reset();
  Heads heads = attention_gradient(std::move(gradient), tape);
  if (mla_) {
    gradient =
        mla_->backward(std::move(heads), std::move(tape.attention_norm.y), std::move(tape.mla));
  } else {
    gradient = split_heads_backward(std::move(heads), context_.shape.head_shape(), context_.rotary);
    gradient = column_backward(std::move(gradient), std::move(tape.attention_norm.y), qkv_);
  }
  return norm_gradient(std::move(gradient), std::move(tape.x), std::move(tape.attention_norm),
                       attention_norm_);
}

// Uses up what the tape has of attention.
Heads Block::attention_gradient(at::Tensor dout, BlockTape& tape) const {
  if (!context_.blockwise_attention) {
    return unfused_attention_backward(std::move(dout), std::move(tape.heads),
                                      std::move(tape.attention.probabilities));
  }
  Heads heads = std::move(tape.heads);
  AttentionOutput forward = std::move(tape.attention);
  if (context_.attention_kernels != AttentionKernels::Blockwise)
    return library_attention_backward(context_.attention_kernels, dout, heads, forward);
  return blockwise_attention_backward(std::move(dout), std::move(heads), std::move(forward),
                                      context_.mask);
}

at::Tensor Block::column(const at::Tensor& x, const Linear& linear) const {
  return linear_forward(context_.tensor.column_input(x), linear.weight.weight(),
                        linear.bias.weight(), context_.gemms);
}

// The bias belongs to the sum over the ranks, not to each part of it.
at::Tensor Block::row(const at::Tensor& x, const Linear& linear) const {
  if (context_.tensor.size() == 1) {
    return linear_forward(x, linear.weight.weight(), linear.bias.weight(), context_.gemms);
  }
  at::Tensor y =
      context_.tensor.row_output(linear_forward(x, linear.weight.weight(), {}, context_.gemms));
  if (linear.bias.exists()) y.add_(linear.bias.weight());
  return y;
}

at::Tensor Block::column_backward(at::Tensor dy, at::Tensor x, const Linear& linear) const {
  at::Tensor dx = linear_data_gradient(dy, linear.weight.weight(), context_.gemms);
  add_linear_weight_gradient(dy, context_.tensor.column_input(x), linear.weight.gradient(),
                             linear.bias.gradient(), context_.gemms);
  x.reset(), dy.reset();
  return context_.tensor.column_gradient(std::move(dx));
}

at::Tensor Block::row_backward(const at::Tensor& dy, at::Tensor x, const Linear& linear) const {
  const at::Tensor whole = context_.tensor.row_gradient(dy);
  at::Tensor dx = linear_data_gradient(whole, linear.weight.weight(), context_.gemms);
  add_linear_weight_gradient(whole, x, linear.weight.gradient(), {}, context_.gemms);
  if (linear.bias.exists()) accumulate(linear.bias.gradient(), dy.sum(0));
  return dx;
}

NormOutput Block::norm_of(const at::Tensor& x, const Linear& parameters) const {
  return norm(context_.model.norm, x, parameters.weight.weight(), parameters.bias.weight());
}

at::Tensor Block::norm_gradient(at::Tensor dy, at::Tensor x, NormOutput forward,
                                const Linear& parameters) const {
  return norm_backward(context_.model.norm, std::move(dy), x, forward, parameters.weight.weight(),
                       parameters.bias.weight(), parameters.weight.gradient(),
                       parameters.bias.gradient());
}

}  // namespace llmsim::runtime
