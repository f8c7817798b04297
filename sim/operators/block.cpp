#include "sim/operators/block.h"

#include <algorithm>

#include "sim/operators/attention_core.h"
#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// Collects the operators of a block; one method per half, one per idiom.
class BlockLowering {
 public:
  BlockLowering(const Transformer& model, const Strategy& strategy, const Stack& stack)
      : model_(model),
        strategy_(strategy),
        stack_(stack),
        linear_{.precision = strategy.precision, .stack = &stack, .adapters = strategy.adapters},
        element_(size_of(activation_dtype(strategy.precision)).value()),
        tokens_(static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.context_parallel),
        tensor_(strategy.tensor_parallel) {}

  BlockOperators lower(RecomputeKind recompute) {
    attention_half();
    mlp_half();
    apply(recompute);
    return std::move(block_);
  }

  double residual_elements() const {
    const double whole = static_cast<double>(tokens_) * model_.hidden_size;
    return strategy_.sequence_parallel ? whole / tensor_ : whole;
  }
  Bytes residual_bytes() const { return Bytes(residual_elements() * element_); }

 private:
  void attention_half() {
    const std::int64_t h = model_.hidden_size, d = model_.head_dim;
    const std::int64_t heads = model_.num_heads / tensor_, kv_heads = std::max(1, model_.num_kv_heads / tensor_);
    const double q_elements = static_cast<double>(tokens_ * heads * d), kv_elements = static_cast<double>(tokens_ * kv_heads * d);
    norm("attention_norm");
    gather();
    add(lower_linear(linear_, "qkv", tokens_, (heads + 2 * kv_heads) * d, h));
    if (model_.position == Position::Rope) {
      stream(OperatorKind::Rotary, "rotary", q_elements + kv_elements, rotary_traffic(stack_, element_));
    }
    keep(Bytes((q_elements + 2 * kv_elements) * element_));
    core_begin_ = block_.forward.size();
    attention_core();
    core_end_ = block_.forward.size();
    keep(Bytes(q_elements * element_));  // input of the projection
    add(lower_linear(linear_, "attention_output", tokens_, h, heads * d));
    reduce();
    if (model_.norms_per_layer >= 4) norm("post_attention_norm");
    if (!model_.parallel_block) residual("attention_residual");
  }

  void mlp_half() {
    const std::int64_t h = model_.hidden_size, f = model_.ffn_size / tensor_;
    const double ffn_elements = static_cast<double>(tokens_ * f);
    const int width = model_.gated_mlp ? 2 : 1;
    if (!model_.parallel_block || model_.norms_per_layer >= 2) norm("mlp_norm");
    if (!model_.parallel_block) gather();
    add(lower_linear(linear_, "mlp_up", tokens_, width * f, h));
    keep(Bytes(width * ffn_elements * element_));
    stream(OperatorKind::Activation, "activation", ffn_elements, activation_traffic(model_.gated_mlp, stack_, element_));
    const bool keeps_both = model_.gated_mlp && stack_.fusion == ElementwiseFusion::Eager;  // silu(gate) and the product
    keep(Bytes((keeps_both ? 2 : 1) * ffn_elements * linear_input_bytes(linear_)));
    add(lower_linear(linear_, "mlp_down", tokens_, h, f));
    reduce();
    if (model_.norms_per_layer >= 4) norm("post_mlp_norm");
    residual("mlp_residual");
  }

  void attention_core() {
    AttentionCore core = lower_attention_core(model_, strategy_, stack_);
    block_.forward.insert(block_.forward.end(), core.forward.begin(), core.forward.end());
    block_.backward.insert(block_.backward.end(), core.backward.begin(), core.backward.end());
    core_working_ = core.working;
  }

  void norm(const char* label) {
    stream(OperatorKind::Norm, label, residual_elements(), norm_traffic(model_.norm, stack_, element_));
    const double input = stack_.norms_in_fp32 ? size_of(DType::Fp32).value() : element_;
    keep(Bytes(residual_elements() * input));                        // its input
    keep(Bytes(residual_elements() * linear_input_bytes(linear_)));  // its output feeds the weight gradient of the next product
  }

  void residual(const char* label) {
    stream(OperatorKind::Residual, label, residual_elements(), residual_traffic(stack_, element_));
    if (stack_.dropout > 0.0) keep(Bytes(residual_elements()));
  }

  // Before a column-parallel product.
  void gather() {
    if (tensor_ == 1) return;
    const Bytes message = whole_residual();
    if (!strategy_.sequence_parallel) {
      block_.backward.push_back(collective("column_gradient", CollectiveKind::AllReduce, GroupKind::Tensor, message));
      return;
    }
    block_.forward.push_back(collective("column_input", CollectiveKind::AllGather, GroupKind::Tensor, message));
    block_.backward.push_back(collective("column_gradient", CollectiveKind::ReduceScatter, GroupKind::Tensor, message));
    block_.backward.push_back(collective("column_input_again", CollectiveKind::AllGather, GroupKind::Tensor, message));
  }

  // After a row-parallel product.
  void reduce() {
    if (tensor_ == 1) return;
    const Bytes message = whole_residual();
    if (!strategy_.sequence_parallel) {
      block_.forward.push_back(collective("row_output", CollectiveKind::AllReduce, GroupKind::Tensor, message));
      return;
    }
    block_.forward.push_back(collective("row_output", CollectiveKind::ReduceScatter, GroupKind::Tensor, message));
    block_.backward.push_back(collective("row_gradient", CollectiveKind::AllGather, GroupKind::Tensor, message));
  }

  Bytes whole_residual() const { return Bytes(static_cast<double>(tokens_) * model_.hidden_size * element_); }

  void stream(OperatorKind kind, const char* label, double elements, const Traffic& traffic) {
    if (traffic.forward_kernels == 0) return;
    block_.forward.push_back(streaming(kind, label, elements, traffic.forward_bytes, traffic.forward_kernels));
    block_.backward.push_back(streaming(kind, label, elements, traffic.backward_bytes, traffic.backward_kernels));
  }

  void add(const LinearOperators& linear) {
    block_.forward.insert(block_.forward.end(), linear.forward.begin(), linear.forward.end());
    block_.backward.insert(block_.backward.end(), linear.backward.begin(), linear.backward.end());
  }

  // The operator pushed last is charged with bytes that live until its backward pass.
  void keep(Bytes size) { block_.forward.back().saved += size; }

  void apply(RecomputeKind recompute) {
    const Bytes everything = total_saved(block_.forward);
    block_.saved = everything;
    const auto core_first = block_.forward.begin() + static_cast<std::ptrdiff_t>(core_begin_);
    const auto core_last = block_.forward.begin() + static_cast<std::ptrdiff_t>(core_end_);
    if (recompute == RecomputeKind::Selective) {
      block_.recompute.assign(core_first, core_last);
      block_.saved -= strategy_.flash_attention ? Bytes(0.0) : core_saved();
    } else if (recompute == RecomputeKind::Full || recompute == RecomputeKind::EveryN) {
      block_.recompute = block_.forward;
      block_.saved = residual_bytes();
    } else if (recompute == RecomputeKind::Op) {
      recompute_cheap_operators();
    }
    block_.restored = everything - block_.saved;
    block_.gradients = activation_gradients();
  }

  // The MLP is the widest point: gradients of the activation's output and of its one or two inputs, of the block's input and
  // output.
  Bytes activation_gradients() const {
    const double ffn = static_cast<double>(model_.ffn_size) / tensor_ * (model_.gated_mlp ? 3.0 : 2.0);
    return std::max(Bytes(static_cast<double>(tokens_) * (ffn + 2.0 * model_.hidden_size) * element_), core_working_);
  }

  Bytes core_saved() const {
    Bytes sum;
    for (std::size_t i = core_begin_; i < core_end_; ++i) {
      if (block_.forward[i].kind != OperatorKind::Gemm) sum += block_.forward[i].saved;
    }
    return sum;
  }

  // Keeps the block's input, attention's output and the outputs of every second product; everything else is made again.  Products
  // come in pairs of unequal width, so half of each is charged.
  void recompute_cheap_operators() {
    block_.saved = residual_bytes();
    for (Operator op : block_.forward) {
      if (op.kind == OperatorKind::Attention) {
        block_.saved += op.saved + Bytes(static_cast<double>(op.batch * op.m * op.k) * element_);
      } else if (op.kind == OperatorKind::Gemm) {
        block_.saved += Bytes(0.5 * static_cast<double>(op.batch * op.m * op.n) * element_);
        op.m = (op.m + 1) / 2;
        op.flops /= 2.0;
        block_.recompute.push_back(op);
      } else if (op.kind != OperatorKind::Collective) {
        block_.recompute.push_back(op);
      }
    }
  }

  const Transformer& model_;
  const Strategy& strategy_;
  const Stack& stack_;
  LinearContext linear_;
  double element_;
  std::int64_t tokens_;
  int tensor_;
  BlockOperators block_;
  Bytes core_working_{};
  std::size_t core_begin_ = 0;
  std::size_t core_end_ = 0;
};

}  // namespace

BlockOperators lower_block(const Transformer& model, const Strategy& strategy, const Stack& stack, RecomputeKind recompute) {
  return BlockLowering(model, strategy, stack).lower(recompute);
}

}  // namespace llmsim::sim
