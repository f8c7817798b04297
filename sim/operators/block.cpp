#include "sim/operators/block.h"

#include <algorithm>
#include <numeric>

#include "sim/operators/attention_core.h"
#include "sim/operators/block_dataflow.h"
#include "sim/operators/block_recompute.h"
#include "sim/operators/experts.h"
#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

bool gathers_again(const Strategy& strategy, const Framework& framework) {
  return framework.sharded.regathers_in_backward && (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp);
}

// Collects the operators of a block; one method per half, one per idiom.
class BlockLowering {
 public:
  BlockLowering(const Transformer& model, const Strategy& strategy, const Framework& framework, LayerKind kind)
      : model_(model),
        kind_(kind),
        strategy_(strategy),
        framework_(framework),
        linear_{.precision = strategy.precision,
                .framework = &framework,
                .adapters = strategy.adapters,
                .requantises_weights = gathers_again(strategy, framework)},
        element_(size_of(activation_dtype(strategy.precision)).value()),
        tokens_(static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp),
        tensor_(strategy.tp) {}

  BlockOperators lower(RecomputeKind recompute) {
    attention_half();
    kind_ == LayerKind::Moe ? moe_half() : mlp_half();
    bias_gradients();
    block_.gradients = activation_gradients();
    recompute_block(block_, parts_, model_, strategy_, framework_, recompute);
    block_.offloaded =
        offloadable_bytes(parts_.inputs, strategy_.offload.modules, strategy_.recompute, recompute, kind_ == LayerKind::Moe);
    return std::move(block_);
  }

 private:
  double residual_elements() const {
    const double whole = static_cast<double>(tokens_) * model_.hidden_size;
    return strategy_.sequence_parallel ? whole / tensor_ : whole;
  }

  void attention_half() {
    const NormKept kept = norm("attention_norm", keeps_input(true));
    parts_.inputs.attention_norm = kept.input, parts_.inputs.qkv = kept.output;
    model_.mla ? mla_inputs(*model_.mla) : attention_inputs();
    parts_.core.first = block_.forward.size();
    attention_core();
    parts_.core.last = block_.forward.size();
    const std::int64_t width = attention_output_width(model_) / tensor_;
    const Bytes output(static_cast<double>(tokens_ * width) * element_);
    if (strategy_.flash_attention || keeps_input(all_adapted())) keep(output, parts_.inputs.attention_output);
    if (copies_attention_output()) keep(output);
    gemm("attention_output", width, {model_.hidden_size}, true);
    if (!model_.parallel_block) reduce();
    if (model_.norms_per_layer >= 4) norm("post_attention_norm", false);
    if (!model_.parallel_block) residual("attention_residual");
  }

  // Queries, keys and values.
  void attention_inputs() {
    const std::int64_t h = model_.hidden_size, d = model_.head_dim;
    const std::int64_t heads = model_.num_heads / tensor_, kv_heads = std::max(1, model_.num_kv_heads / tensor_);
    const double q_elements = static_cast<double>(tokens_ * heads * d), kv_elements = static_cast<double>(tokens_ * kv_heads * d);
    gather();
    if (fuses_inputs()) {
      const std::int64_t f = model_.ffn_size / tensor_;
      gemm("qkv_mlp_up", h, {heads * d, kv_heads * d, kv_heads * d, f, model_.gated_mlp ? f : 0});
    } else {
      gemm("qkv", h, {heads * d, kv_heads * d, kv_heads * d});
    }
    if (model_.qk_norm != QkNorm::None) qk_norm(q_elements + kv_elements);
    if (strategy_.adapters) keep_adapter_dropout(residual_elements());
    if (model_.position == Position::Rope) {
      stream(OperatorKind::Rotary, "rotary", q_elements + kv_elements, rotary_traffic(framework_, element_));
    }
    const double kv_kept = framework_.kept.expanded_kv_heads ? q_elements : kv_elements;
    keep(Bytes((q_elements + 2 * kv_kept) * element_), parts_.inputs.core_attention);
    if (framework_.kept.fused_qkv) keep(Bytes((q_elements + kv_elements) * element_));
  }

  void mla_inputs(const Mla& mla) {
    const std::int64_t h = model_.hidden_size, heads = model_.num_heads / tensor_, d = query_head_dim(model_);
    if (mla.q_lora_rank) down("query_down", "query_norm", *mla.q_lora_rank, 0);
    down("mla_down", "mla_norm", mla.kv_lora_rank, mla.qk_rope_head_dim);
    parts_.mla_up.first = block_.forward.size();
    mla.q_lora_rank ? share_mla(*mla.q_lora_rank) : gather();
    share_mla(mla.kv_lora_rank + mla.qk_rope_head_dim);
    gemm("query_up", mla.q_lora_rank.value_or(static_cast<int>(h)), {heads * d});
    gemm("mla_up", mla.kv_lora_rank, {heads * (mla.qk_nope_head_dim + mla.v_head_dim)});
    const double t = static_cast<double>(tokens_), per_head = t * static_cast<double>(heads);
    stream(OperatorKind::Rotary, "rotary", (per_head + t) * mla.qk_rope_head_dim, rotary_traffic(framework_, element_));
    stream(OperatorKind::Copy, "assemble_keys", per_head * static_cast<double>(d), permutation_traffic(element_));
    parts_.mla_saved = Bytes(per_head * static_cast<double>(2 * d + mla.v_head_dim) * element_);
    keep(parts_.mla_saved, parts_.inputs.core_attention);
    parts_.mla_up.last = block_.forward.size();
  }

  // Into a bottleneck: the GEMM, and the norm of its first `rank` values.
  void down(const char* label, const char* norm_label, int rank, int beside) {
    const std::int64_t tokens = strategy_.sequence_parallel ? tokens_ / tensor_ : tokens_;
    add_gemm(lower_linear(linear_, label, tokens, rank + beside, model_.hidden_size), {rank + beside}, false);
    const double normalised = static_cast<double>(tokens) * rank, all = static_cast<double>(tokens) * (rank + beside);
    stream(OperatorKind::Norm, norm_label, normalised, norm_traffic(model_.norm, framework_, element_));
    keep(Bytes(all * element_ + normalised * linear_input_bytes(linear_)));
  }

  // Each tensor rank projects the latents of all tokens up.  Megatron-LM gathers them within the GEMMs up: where those are
  // made again they are gathered again, and once more for the gradient of the weights, as before any column-parallel GEMM
  // (megatron/core/transformer/multi_latent_attention.py, qkv_up_proj_and_rope_apply).
  void share_mla(int width) {
    if (tensor_ == 1) return;
    const Bytes message(static_cast<double>(tokens_) * width * element_);
    if (!strategy_.sequence_parallel) {
      block_.backward.push_back(collective("mla_gradient", CollectiveKind::AllReduce, GroupKind::Tensor, message));
      return;
    }
    block_.forward.push_back(collective("latents", CollectiveKind::AllGather, GroupKind::Tensor, message));
    block_.backward.push_back(collective("mla_again", CollectiveKind::AllGather, GroupKind::Tensor, message));
    block_.backward.push_back(collective("mla_gradient", CollectiveKind::ReduceScatter, GroupKind::Tensor, message));
  }

  void mlp_norm() {
    const NormKept kept = norm("mlp_norm", keeps_input(all_adapted()));
    parts_.inputs.mlp_norm = kept.input, parts_.inputs.mlp_input = kept.output;
  }

  void mlp_half() {
    const std::int64_t h = model_.hidden_size, f = model_.ffn_size / tensor_;
    const double ffn_elements = static_cast<double>(tokens_ * f);
    const int width = model_.gated_mlp ? 2 : 1;
    if (!model_.parallel_block || model_.norms_per_layer >= 2) mlp_norm();
    parts_.mlp.first = block_.forward.size();
    if (!model_.parallel_block) gather();
    if (!fuses_inputs()) gemm("mlp_up", h, {f, model_.gated_mlp ? f : 0});
    parts_.mlp_inner_saved = Bytes(width * ffn_elements * element_);
    keep(parts_.mlp_inner_saved, parts_.inputs.activation);
    parts_.activations = {{.place = block_.forward.size()}};
    Bytes& kept = parts_.activations.back().saved;
    stream(OperatorKind::Activation, "activation", ffn_elements, activation_traffic(model_.gated_mlp, framework_, element_));
    const bool eager_gate = model_.gated_mlp && framework_.fusion == ElementwiseFusion::Eager;
    const bool composed = framework_.composed_activation && !model_.gated_mlp && framework_.fusion == ElementwiseFusion::Eager;
    if (composed) kept += Bytes(kComposedGeluKeeps * ffn_elements * element_);
    if (eager_gate) kept += Bytes(ffn_elements * element_);  // silu(gate)
    if (keeps_input(all_adapted())) kept += Bytes(ffn_elements * linear_input_bytes(linear_));
    keep(kept);
    if (all_adapted()) keep_adapter_dropout(ffn_elements);
    gemm("mlp_down", f, {h}, true);
    parts_.needed = parts_.gemms.back().gemm;
    end_half();
  }

  void moe_half() {
    parts_.moe = true;
    if (!model_.parallel_block || model_.norms_per_layer >= 2) mlp_norm();
    parts_.mlp.first = block_.forward.size();
    const bool gathers = !routes_shards(strategy_, framework_);
    if (!model_.parallel_block && gathers) gather();
    ExpertOperators experts = lower_experts(model_, strategy_, framework_, linear_);
    const std::size_t before = block_.forward.size();
    for (BlockGemm& gemm : experts.gemms) {
      gemm.gemm += before;
      parts_.gemms.push_back(gemm);
    }
    for (BlockActivation& activation : experts.activations) activation.place += before;
    parts_.activations = std::move(experts.activations);
    parts_.needed = before + experts.needed;
    parts_.gathered = {parts_.mlp.first, before};
    parts_.shared_up = {experts.shared_up.first + before, experts.shared_up.last + before};
    parts_.shared_down = {experts.shared_down.first + before, experts.shared_down.last + before};
    parts_.shared_saved = experts.shared_saved;
    parts_.mlp_inner_saved = experts.inner_saved;
    parts_.inputs.mlp_input = experts.rows_saved, parts_.inputs.activation = experts.activation_input;
    expert_gradients_ = experts.gradients;
    add({.forward = std::move(experts.forward), .backward = std::move(experts.backward)});
    end_half(gathers);
  }

  // What follows the second half's last GEMM; `partial`: tensor ranks have a part of the sum each.
  void end_half(bool partial = true) {
    if (model_.parallel_block) sum_of_halves();
    if (partial) reduce();
    parts_.mlp.last = block_.forward.size();
    if (model_.norms_per_layer >= 4) norm("post_mlp_norm", false);
    residual("mlp_residual");
  }

  // One GEMM where both halves read the same norm and the framework joins their weights.
  bool fuses_inputs() const { return model_.parallel_block && model_.norms_per_layer == 1 && framework_.fuses_parallel_inputs; }

  // The partial sums of attention and MLP, added before the one reduction that both share.
  void sum_of_halves() {
    const double elements = static_cast<double>(tokens_) * model_.hidden_size;
    block_.forward.push_back(streaming(OperatorKind::Residual, "parallel_sum", elements, 3 * element_, 1));
  }

  // Queries and keys are normalised: the kernel's input is kept beside its output.
  void qk_norm(double elements) {
    Traffic traffic = norm_traffic(model_.norm, framework_, element_);
    traffic.forward_kernels *= 2, traffic.backward_kernels *= 2;
    stream(OperatorKind::Norm, "qk_norm", elements, traffic);
    keep(Bytes(elements * element_));
  }

  void attention_core() {
    AttentionCore core = lower_attention_core(model_, strategy_, framework_);
    block_.forward.insert(block_.forward.end(), core.forward.begin(), core.forward.end());
    block_.backward.insert(block_.backward.end(), core.backward.begin(), core.backward.end());
    core_working_ = core.working;
    parts_.inputs.core_inner = total_saved(core.forward);
  }

  // The gradient of a bias is the sum of its GEMM's output gradient over the tokens.
  void bias_gradients() {
    if (framework_.gradients.fused_bias || strategy_.adapters) return;
    const double heads = static_cast<double>(model_.num_heads + 2 * model_.num_kv_heads) * model_.head_dim / tensor_;
    const double ffn = static_cast<double>(model_.ffn_size) / tensor_ * (model_.gated_mlp ? 2.0 : 1.0);
    const auto add = [&](bool bias, double width, int kernels) {
      if (!bias) return;
      const double elements = static_cast<double>(tokens_) * width;
      block_.backward.push_back(streaming(OperatorKind::Residual, "bias_gradient", elements, element_, kernels));
    };
    add(model_.bias.qkv, heads, 1);
    add(model_.bias.attention_output, model_.hidden_size, 1);
    add(model_.bias.mlp && kind_ == LayerKind::Dense, ffn + model_.hidden_size, 2);
  }

  struct NormKept {
    Bytes input, output;
  };

  // An eager RMSNorm keeps its input in fp32 and, for the gradient of its scale, the normalised input.
  NormKept norm(const char* label, bool feeds_kept_input) {
    stream(OperatorKind::Norm, label, residual_elements(), norm_traffic(model_.norm, framework_, element_));
    const bool eager_rms = model_.norm == Norm::RmsNorm && framework_.fusion == ElementwiseFusion::Eager;
    const double input = framework_.norms_in_fp32 || eager_rms ? size_of(DType::Fp32).value() : element_;
    const double normalised = eager_rms && !strategy_.adapters ? element_ : 0.0;
    const double output = feeds_kept_input ? linear_input_bytes(linear_) : 0.0;
    keep(Bytes(residual_elements() * (input + normalised + output)));
    parts_.norms_saved += Bytes(residual_elements() * (normalised + output));
    return {Bytes(residual_elements() * input), Bytes(residual_elements() * output)};
  }

  // Linear layers keep their input for the weight gradient; frozen ones have none.
  bool keeps_input(bool adapted) const { return !strategy_.adapters || adapted || framework_.kept.frozen_inputs; }
  // A single sequence is transposed by a view; ring attention merges partial results into a new tensor instead.
  bool copies_attention_output() const {
    const AttentionKernel kernel = framework_.attention_kernel;
    const bool flash =
        kernel == AttentionKernel::Flash1 || kernel == AttentionKernel::Flash2 || kernel == AttentionKernel::Flash3;
    const bool transposed = strategy_.micro_batch > 1 && strategy_.cp == 1;
    return framework_.kept.flash_output_copied && strategy_.flash_attention && flash && transposed;
  }
  bool all_adapted() const { return strategy_.adapters && strategy_.adapters->all_linear; }
  void keep_adapter_dropout(double elements) {
    if (framework_.kept.adapter_dropout > 0.0) keep(Bytes(elements * (element_ + 1.0)));
  }

  void residual(const char* label) {
    stream(OperatorKind::Residual, label, residual_elements(), residual_traffic(framework_, element_));
    if (framework_.dropout > 0.0) keep(Bytes(residual_elements()));
  }

  // Before a column-parallel GEMM.
  void gather() {
    if (tensor_ == 1) return;
    const Bytes message = whole_residual();
    if (!strategy_.sequence_parallel) {
      block_.backward.push_back(
          collective("column_gradient", CollectiveKind::AllReduce, GroupKind::Tensor, message, TensorOverlap::WeightGradient));
      return;
    }
    block_.forward.push_back(
        collective("column_input", CollectiveKind::AllGather, GroupKind::Tensor, gathered_residual(), TensorOverlap::Feeds));
    block_.backward.push_back(
        collective("column_gradient", CollectiveKind::ReduceScatter, GroupKind::Tensor, message, TensorOverlap::WeightGradient));
    block_.backward.push_back(collective("column_input_again", CollectiveKind::AllGather, GroupKind::Tensor, gathered_residual(),
                                         TensorOverlap::DataGradient));
  }

  // After a row-parallel GEMM.
  void reduce() {
    if (tensor_ == 1) return;
    const Bytes message = whole_residual();
    if (!strategy_.sequence_parallel) {
      block_.forward.push_back(collective("row_output", CollectiveKind::AllReduce, GroupKind::Tensor, message));
      return;
    }
    block_.forward.push_back(
        collective("row_output", CollectiveKind::ReduceScatter, GroupKind::Tensor, message, TensorOverlap::Follows));
    block_.backward.push_back(
        collective("row_gradient", CollectiveKind::AllGather, GroupKind::Tensor, gathered_residual(), TensorOverlap::Follows));
  }

  // As all-gathers send it: linear layers need it in the format of their GEMMs.
  Bytes gathered_residual() const {
    const double sent = framework_.low_precision.gathers_inputs
                            ? low_precision_bytes(framework_.low_precision, strategy_.precision, false)
                            : element_;
    return std::min(1.0, sent / element_) * whole_residual();
  }

  Bytes whole_residual() const { return Bytes(static_cast<double>(tokens_) * model_.hidden_size * element_); }

  void stream(OperatorKind kind, const char* label, double elements, const Traffic& traffic) {
    if (traffic.forward_kernels == 0) return;
    block_.forward.push_back(streaming(kind, label, elements, traffic.forward_bytes, traffic.forward_kernels));
    block_.backward.push_back(streaming(kind, label, elements, traffic.backward_bytes, traffic.backward_kernels));
  }

  // The GEMM of tokens and a matrix of all `parts` side by side: q, k and v; gate and up.
  void gemm(const char* label, std::int64_t in, const BlockGemm::Widths& parts, bool row_parallel = false) {
    const std::int64_t out = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
    add_gemm(lower_linear(linear_, label, tokens_, out, in), parts, row_parallel);
  }

  void add_gemm(const LinearOperators& linear, const BlockGemm::Widths& parts, bool row_parallel) {
    const auto own = std::find_if(linear.forward.begin(), linear.forward.end(),
                                  [](const Operator& op) { return op.kind == OperatorKind::Gemm; });
    const std::size_t place = block_.forward.size() + static_cast<std::size_t>(own - linear.forward.begin());
    parts_.gemms.push_back({.gemm = place, .parts = parts, .row_parallel = row_parallel});
    add(linear);
  }

  void add(const LinearOperators& linear) {
    block_.forward.insert(block_.forward.end(), linear.forward.begin(), linear.forward.end());
    block_.backward.insert(block_.backward.end(), linear.backward.begin(), linear.backward.end());
  }

  // The operator pushed last is charged with bytes that live until its backward pass.
  void keep(Bytes size) { block_.forward.back().saved += size; }
  // `input`: of which module this is one.
  void keep(Bytes size, Bytes& input) {
    keep(size);
    input += size;
  }

  // The MLP is the widest point: gradients of the activation's output and of its one or two inputs, of the block's input and
  // output.
  Bytes activation_gradients() const {
    const double ffn = static_cast<double>(model_.ffn_size) / tensor_ * (model_.gated_mlp ? 3.0 : 2.0);
    const Bytes core = std::max(core_working_, parts_.mla_saved + 2.0 * whole_residual());
    if (kind_ == LayerKind::Moe) return std::max(expert_gradients_ + 2.0 * whole_residual(), core);
    return std::max(Bytes(static_cast<double>(tokens_) * (ffn + 2.0 * model_.hidden_size) * element_), core);
  }

  const Transformer& model_;
  LayerKind kind_;
  const Strategy& strategy_;
  const Framework& framework_;
  LinearContext linear_;
  double element_;
  std::int64_t tokens_;
  int tensor_;
  BlockOperators block_;
  BlockParts parts_;
  Bytes core_working_{};
  Bytes expert_gradients_{};
};

}  // namespace

BlockOperators lower_block(const Transformer& model, const Strategy& strategy, const Framework& framework,
                           RecomputeKind recompute, LayerKind kind) {
  return BlockLowering(model, strategy, framework, kind).lower(recompute);
}

}  // namespace llmsim::sim
