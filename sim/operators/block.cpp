#include "sim/operators/block.h"

#include <algorithm>
#include <utility>

#include "sim/model/parameters.h"
#include "sim/operators/attention_core.h"
#include "sim/operators/block_recompute.h"
#include "sim/operators/experts.h"
#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

bool gathers_again(const Strategy& strategy, const Framework& framework) {
  return framework.sharded.regathers_in_backward &&
         (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp);
}

// Collects the operators of a block; one method per half, one per idiom.
class BlockLowering {
 public:
  BlockLowering(const Transformer& model, const Strategy& strategy, const Framework& framework,
                LayerKind kind)
      : model_(model),
        kind_(kind),
        weights_(layer_weights(model, kind, strategy.tp)),
        strategy_(strategy),
        framework_(framework),
        linear_{.precision = strategy.precision,
                .framework = &framework,
                .adapters = strategy.adapters,
                .requantises_weights = gathers_again(strategy, framework)},
        element_(size_of(activation_dtype(strategy.precision)).value()),
        tokens_(static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp),
        tensor_(strategy.tp) {}

  LayerOperators lower() {
    attention_half();
    kind_ == LayerKind::Moe ? moe_half() : mlp_half();
    return std::move(block_).build();
  }

 private:
  double residual_elements() const {
    const double whole = static_cast<double>(tokens_) * model_.hidden_size;
    return strategy_.sequence_parallel ? whole / tensor_ : whole;
  }

  void attention_half() {
    norm("attention_norm");
    model_.mla ? mla_inputs(*model_.mla) : attention_inputs();
    block_.add(Module::CoreAttention, lower_attention_core(model_, strategy_, framework_));
    gemm(Module::AttentionOutput, WeightName::AttentionOutput);
    if (!model_.parallel_block) reduce(Module::AttentionOutput);
    if (model_.norms_per_layer >= 4) norm("post_attention_norm");
    if (!model_.parallel_block) residual("attention_residual");
  }

  // Queries, keys and values.
  void attention_inputs() {
    const std::int64_t heads = model_.num_heads / tensor_,
                       kv_heads = std::max(1, model_.num_kv_heads / tensor_);
    const double queries_and_keys =
        static_cast<double>(tokens_ * (heads + kv_heads) * model_.head_dim);
    add_sharing(Module::Qkv, fuses_inputs() ? joined_inputs() : linear(WeightName::Qkv));
    if (model_.qk_norm != QkNorm::None) qk_norm(queries_and_keys);
    if (model_.position == Position::Rope)
      block_.add(OperatorKind::Rotary, Module::Qkv, "rotary", queries_and_keys,
                 rotary_traffic(framework_, element_));
  }

  // One GEMM of qkv and the MLP's input.
  LayerOperators joined_inputs() const {
    const LayerWeight qkv = rank_weight(WeightName::Qkv), up = rank_weight(WeightName::MlpUp);
    LayerOperators joined =
        lower_linear(linear_, "qkv_mlp_up", tokens_, qkv.columns + up.columns, qkv.rows);
    for (const LayerWeight& weight : {qkv, up}) {
      add_bias_gradient(joined, linear_, weight, tokens_);
      add_adapters(joined, linear_, weight, tokens_);
    }
    return joined;
  }

  void mla_inputs(const Mla& mla) {
    if (mla.q_lora_rank) down(WeightName::QueryDown, WeightName::QueryNorm);
    down(WeightName::MlaDown, WeightName::MlaNorm);
    LayerOperators queries = linear(WeightName::QueryUp), keys = linear(WeightName::MlaUp);
    share_input(queries, mla.q_lora_rank ? shared_latents(WeightName::QueryDown)
                                         : shared_residual(Module::MlaUp));
    share_input(keys, shared_latents(WeightName::MlaDown));
    block_.add(Module::MlaUp, queries);
    block_.add(Module::MlaUp, keys);
    const double t = static_cast<double>(tokens_), per_head = t * (model_.num_heads / tensor_);
    block_.add(OperatorKind::Rotary, Module::MlaUp, "rotary", (per_head + t) * mla.qk_rope_head_dim,
               rotary_traffic(framework_, element_));
    block_.add(OperatorKind::Copy, Module::MlaUp, "assemble_keys",
               per_head * query_head_dim(model_), permutation_traffic(element_));
  }

  // Into a bottleneck: the GEMM, and the norm of its first values.
  void down(WeightName matrix, WeightName norm) {
    const std::int64_t tokens = strategy_.sequence_parallel ? tokens_ / tensor_ : tokens_;
    block_.add(Module::Qkv, lower_linear(linear_, weights_[matrix], tokens));
    block_.add(OperatorKind::Norm, Module::Qkv, name_of(norm),
               static_cast<double>(tokens * weights_[norm].columns),
               norm_traffic(model_.norm, framework_, element_));
  }

  // Each tensor rank projects the latents of all tokens up.  Megatron-LM gathers them within the
  // GEMMs up: where those are recomputed they are gathered again, and once more for the gradient of
  // the weights, as before any column-parallel GEMM
  // (megatron/core/transformer/multi_latent_attention.py, qkv_up_proj_and_rope_apply).
  SharedInput shared_latents(WeightName down) const {
    if (tensor_ == 1) return {};
    const Bytes message(static_cast<double>(tokens_ * weights_[down].columns) * element_);
    const auto over_tensor_ranks = [&](const char* label, CollectiveKind kind) {
      return collective(label, kind, GroupKind::Tensor, message);
    };
    if (!strategy_.sequence_parallel)
      return {.gather = {},
              .gather_again = {},
              .sum = over_tensor_ranks("mla_gradient", CollectiveKind::AllReduce)};
    return {.gather = over_tensor_ranks("latents", CollectiveKind::AllGather),
            .gather_again = over_tensor_ranks("mla_again", CollectiveKind::AllGather),
            .sum = over_tensor_ranks("mla_gradient", CollectiveKind::ReduceScatter)};
  }

  bool norms_twice() const { return !model_.parallel_block || model_.norms_per_layer >= 2; }

  void mlp_half() {
    if (norms_twice()) norm("mlp_norm");
    if (!model_.parallel_block) {
      add_sharing(Module::MlpUp, linear(WeightName::MlpUp));
    } else if (!fuses_inputs()) {
      gemm(Module::MlpUp, WeightName::MlpUp);
    }
    block_.add(OperatorKind::Activation, Module::Activation, "activation",
               static_cast<double>(tokens_ * rank_weight(WeightName::MlpDown).rows),
               activation_traffic(model_.gated_mlp, framework_, element_));
    gemm(Module::MlpDown, WeightName::MlpDown);
    end_half(Module::MlpDown);
  }

  void moe_half() {
    if (norms_twice()) norm("mlp_norm");
    const bool gathers = !routes_shards(strategy_, framework_);
    LayerOperators experts = lower_experts(model_, strategy_, framework_, linear_);
    if (!model_.parallel_block && gathers) share_input(experts, shared_residual(Module::MoeInput));
    block_.add(experts);
    end_half(Module::Combine, gathers);
  }

  // What follows the second half's last GEMM, of `module`; `partial`: tensor ranks have a part of
  // the sum each.
  void end_half(Module module, bool partial = true) {
    if (model_.parallel_block) sum_of_halves(module);
    if (partial) reduce(module);
    if (model_.norms_per_layer >= 4) norm("post_mlp_norm");
    residual("mlp_residual");
  }

  // One GEMM where both halves read the same norm and the framework joins their weights.
  bool fuses_inputs() const {
    return model_.parallel_block && model_.norms_per_layer == 1 && framework_.fuses_parallel_inputs;
  }

  // The partial sums of attention and MLP, added before the one reduction that both share.
  void sum_of_halves(Module module) {
    const double elements = static_cast<double>(tokens_) * model_.hidden_size;
    block_.add_forward(
        module, memory_bound(OperatorKind::Residual, "parallel_sum", elements, 3 * element_, 1));
  }

  void qk_norm(double elements) {
    Traffic traffic = norm_traffic(model_.norm, framework_, element_);
    traffic.forward_kernels *= 2, traffic.backward_kernels *= 2;
    block_.add(OperatorKind::Norm, Module::Qkv, "qk_norm", elements, traffic);
  }

  void norm(const char* label) {
    block_.add(OperatorKind::Norm, Module::Norm, label, residual_elements(),
               norm_traffic(model_.norm, framework_, element_));
  }

  void residual(const char* label) {
    block_.add(OperatorKind::Residual, Module::Residual, label, residual_elements(),
               residual_traffic(framework_, element_));
  }

  // A column-parallel layer that reads the residual stream.
  void add_sharing(Module module, LayerOperators columns) {
    share_input(columns, shared_residual(module));
    block_.add(module, std::move(columns));
  }

  SharedInput shared_residual(Module module) const {
    if (tensor_ == 1) return {};
    const auto over_tensor_ranks = [&](const char* label, CollectiveKind kind, Bytes message,
                                       TensorOverlap overlap) {
      Operator op = collective(label, kind, GroupKind::Tensor, message, overlap);
      op.module = module;
      return op;
    };
    const auto all_gather = [&](const char* label, TensorOverlap overlap) {
      return over_tensor_ranks(label, CollectiveKind::AllGather, gathered_residual(), overlap);
    };
    const auto sum = [&](CollectiveKind kind) {
      return over_tensor_ranks("column_gradient", kind, whole_residual(),
                               TensorOverlap::WeightGradient);
    };
    if (!strategy_.sequence_parallel)
      return {.gather = {}, .gather_again = {}, .sum = sum(CollectiveKind::AllReduce)};
    return {.gather = all_gather("column_input", TensorOverlap::Feeds),
            .gather_again = all_gather("column_input_again", TensorOverlap::DataGradient),
            .sum = sum(CollectiveKind::ReduceScatter)};
  }

  // After a row-parallel GEMM.
  void reduce(Module module) {
    if (tensor_ == 1) return;
    const Bytes message = whole_residual();
    if (!strategy_.sequence_parallel) {
      block_.add_forward(
          module, collective("row_output", CollectiveKind::AllReduce, GroupKind::Tensor, message));
      return;
    }
    block_.add_forward(module, collective("row_output", CollectiveKind::ReduceScatter,
                                          GroupKind::Tensor, message, TensorOverlap::Follows));
    block_.add_backward(module,
                        collective("row_gradient", CollectiveKind::AllGather, GroupKind::Tensor,
                                   gathered_residual(), TensorOverlap::Feeds));
  }

  // As all-gathers send it: linear layers need it in the format of their GEMMs.
  Bytes gathered_residual() const {
    const double sent =
        framework_.low_precision.gathers_inputs
            ? low_precision_bytes(framework_.low_precision, strategy_.precision, false)
            : element_;
    return std::min(1.0, sent / element_) * whole_residual();
  }

  Bytes whole_residual() const {
    return Bytes(static_cast<double>(tokens_) * model_.hidden_size * element_);
  }

  LayerWeight rank_weight(WeightName name) const { return weights_[name].on_rank(tensor_); }

  // The GEMM of tokens and all matrices that stand side by side: q, k and v; gate and up.
  LayerOperators linear(WeightName name) const {
    return lower_linear(linear_, rank_weight(name), tokens_);
  }
  void gemm(Module module, WeightName name) { block_.add(module, linear(name)); }

  const Transformer& model_;
  LayerKind kind_;
  LayerWeights weights_;
  const Strategy& strategy_;
  const Framework& framework_;
  LinearContext linear_;
  double element_;
  std::int64_t tokens_;
  int tensor_;
  LayerBuilder block_;
};

}  // namespace

LayerOperators lower_block(const Transformer& model, const Strategy& strategy,
                           const Framework& framework, RecomputeKind recompute, LayerKind kind) {
  LayerOperators block = BlockLowering(model, strategy, framework, kind).lower();
  block.recompute =
      recomputed_operators(block.forward, model, strategy, framework, recompute, kind);
  return block;
}

}  // namespace llmsim::sim
