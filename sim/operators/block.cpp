#include "sim/operators/block.h"

#include <algorithm>
#include <utility>

#include "sim/model/parameters.h"
#include "sim/operators/attention_core.h"
#include "sim/operators/block_recompute.h"
#include "sim/operators/experts.h"
#include "sim/operators/linear.h"
#include "sim/operators/scans.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

bool gathers_again(const Strategy& strategy, const Framework& framework) {
  return framework.sharded.regathers_in_backward &&
         (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp);
}

// What the parts of a block have in common.
struct Block {
  const Transformer& model;
  const Strategy& strategy;
  const Framework& framework;
  LayerWeights weights;
  LinearContext linear;
  double element;       // bytes of an activation
  std::int64_t tokens;  // t

  LayerWeight on_rank(WeightName name) const { return weights[name].on_rank(strategy.tp); }
};

Block block_of(const Transformer& model, const Strategy& strategy, const Framework& framework,
               LayerKind kind) {
  return {.model = model,
          .strategy = strategy,
          .framework = framework,
          .weights = layer_weights(model, kind, strategy.tp),
          .linear = {.precision = strategy.precision,
                     .framework = &framework,
                     .adapters = strategy.adapters,
                     .requantises_weights = gathers_again(strategy, framework)},
          .element = size_of(activation_dtype(strategy.precision)).value(),
          .tokens = static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp};
}

double residual_elements(const Block& b) {
  const double whole = static_cast<double>(b.tokens) * b.model.hidden_size;
  return b.strategy.sequence_parallel ? whole / b.strategy.tp : whole;
}

Bytes whole_residual(const Block& b) {
  return Bytes(static_cast<double>(b.tokens) * b.model.hidden_size * b.element);
}

// As all-gathers send it: linear layers need it in the format of their GEMMs.
Bytes gathered_residual(const Block& b) {
  const LowPrecisionRecipe& recipe = b.framework.low_precision;
  const double sent =
      recipe.gathers_inputs ? low_precision_bytes(recipe, b.strategy.precision, false) : b.element;
  return std::min(1.0, sent / b.element) * whole_residual(b);
}

// The GEMM of tokens and all matrices that stand side by side: q, k and v; gate and up.
LayerOperators linear(const Block& b, WeightName name) {
  return lower_linear(b.linear, b.on_rank(name), b.tokens);
}

// Of a column-parallel layer that reads the residual stream.
SharedInput shared_residual(const Block& b, Module module) {
  if (b.strategy.tp == 1) return {};
  const auto over_tensor_ranks = [&](const char* label, CollectiveKind kind, Bytes message,
                                     TensorOverlap overlap) {
    Operator op = collective(label, kind, GroupKind::Tensor, message, overlap);
    op.module = module;
    return op;
  };
  const auto all_gather = [&](const char* label, TensorOverlap overlap) {
    return over_tensor_ranks(label, CollectiveKind::AllGather, gathered_residual(b), overlap);
  };
  const auto sum = [&](CollectiveKind kind) {
    return over_tensor_ranks("column_gradient", kind, whole_residual(b),
                             TensorOverlap::WeightGradient);
  };
  if (!b.strategy.sequence_parallel)
    return {.gather = {}, .gather_again = {}, .sum = sum(CollectiveKind::AllReduce)};
  return {.gather = all_gather("column_input", TensorOverlap::Feeds),
          .gather_again = all_gather("column_input_again", TensorOverlap::DataGradient),
          .sum = sum(CollectiveKind::ReduceScatter)};
}

LayerOperators sharing_residual(const Block& b, Module module, LayerOperators columns) {
  share_input(columns, shared_residual(b, module));
  columns.set_module(module);
  return columns;
}

void add_norm(LayerBuilder& half, const Block& b, const char* label) {
  half.add(OperatorKind::Norm, Module::Norm, label, residual_elements(b),
           norm_traffic(b.model.norm, b.framework, b.element));
}

void add_residual(LayerBuilder& half, const Block& b, const char* label) {
  half.add(OperatorKind::Residual, Module::Residual, label, residual_elements(b),
           residual_traffic(b.framework, b.element));
}

// After a row-parallel GEMM.
void add_reduction(LayerBuilder& half, const Block& b, Module module) {
  if (b.strategy.tp == 1) return;
  const auto over_tensor_ranks = [](const char* label, CollectiveKind kind, Bytes message,
                                    TensorOverlap overlap) {
    return collective(label, kind, GroupKind::Tensor, message, overlap);
  };
  if (!b.strategy.sequence_parallel) {
    half.add_forward(module, over_tensor_ranks("row_output", CollectiveKind::AllReduce,
                                               whole_residual(b), TensorOverlap::None));
    return;
  }
  half.add_forward(module, over_tensor_ranks("row_output", CollectiveKind::ReduceScatter,
                                             whole_residual(b), TensorOverlap::Follows));
  half.add_backward(module, over_tensor_ranks("row_gradient", CollectiveKind::AllGather,
                                              gathered_residual(b), TensorOverlap::Feeds));
}

// One GEMM where both halves read the same norm and the framework joins their weights.
bool fuses_inputs(const Block& b) {
  return b.model.parallel_block && b.model.norms_per_layer == 1 &&
         b.framework.fuses_parallel_inputs;
}

// One GEMM of qkv and the MLP's input.
LayerOperators joined_inputs(const Block& b) {
  const LayerWeight qkv = b.on_rank(WeightName::Qkv), up = b.on_rank(WeightName::MlpUp);
  LayerOperators joined =
      lower_linear(b.linear, "qkv_mlp_up", b.tokens, qkv.columns + up.columns, qkv.rows);
  for (const LayerWeight& weight : {qkv, up}) {
    add_bias_gradient(joined, b.linear, weight, b.tokens);
    add_adapters(joined, b.linear, weight, b.tokens);
  }
  return joined;
}

void add_qk_norm(LayerBuilder& inputs, const Block& b, double elements) {
  if (b.model.qk_norm == QkNorm::None) return;
  Traffic traffic = norm_traffic(b.model.norm, b.framework, b.element);
  traffic.forward_kernels *= 2, traffic.backward_kernels *= 2;
  inputs.add(OperatorKind::Norm, Module::Qkv, "qk_norm", elements, traffic);
}

// Queries, keys and values.
LayerOperators attention_inputs(const Block& b) {
  const std::int64_t heads = b.model.num_heads / b.strategy.tp,
                     kv_heads = std::max(1, b.model.num_kv_heads / b.strategy.tp);
  const double queries_and_keys =
      static_cast<double>(b.tokens * (heads + kv_heads) * b.model.head_dim);
  LayerBuilder inputs;
  inputs.add(sharing_residual(b, Module::Qkv,
                              fuses_inputs(b) ? joined_inputs(b) : linear(b, WeightName::Qkv)));
  add_qk_norm(inputs, b, queries_and_keys);
  if (b.model.position == Position::Rope)
    inputs.add(OperatorKind::Rotary, Module::Qkv, "rotary", queries_and_keys,
               rotary_traffic(b.framework, b.element));
  return std::move(inputs).build();
}

// Into a bottleneck: the GEMM, and the norm of its first values.
void add_down(LayerBuilder& inputs, const Block& b, WeightName matrix, WeightName norm) {
  const std::int64_t tokens = b.strategy.sequence_parallel ? b.tokens / b.strategy.tp : b.tokens;
  inputs.add(Module::Qkv, lower_linear(b.linear, b.weights[matrix], tokens));
  inputs.add(OperatorKind::Norm, Module::Qkv, name_of(norm),
             static_cast<double>(tokens * b.weights[norm].columns),
             norm_traffic(b.model.norm, b.framework, b.element));
}

// Each tensor rank projects the latents of all tokens up.  Megatron-LM gathers them within the
// GEMMs up: where those are recomputed they are gathered again, and once more for the gradient of
// the weights, as before any column-parallel GEMM
// (megatron/core/transformer/multi_latent_attention.py, qkv_up_proj_and_rope_apply).
SharedInput shared_latents(const Block& b, WeightName down) {
  if (b.strategy.tp == 1) return {};
  const Bytes message(static_cast<double>(b.tokens * b.weights[down].columns) * b.element);
  const auto over_tensor_ranks = [&](const char* label, CollectiveKind kind) {
    return collective(label, kind, GroupKind::Tensor, message);
  };
  if (!b.strategy.sequence_parallel)
    return {.gather = {},
            .gather_again = {},
            .sum = over_tensor_ranks("mla_gradient", CollectiveKind::AllReduce)};
  return {.gather = over_tensor_ranks("latents", CollectiveKind::AllGather),
          .gather_again = over_tensor_ranks("mla_again", CollectiveKind::AllGather),
          .sum = over_tensor_ranks("mla_gradient", CollectiveKind::ReduceScatter)};
}

LayerOperators mla_inputs(const Block& b, const Mla& mla) {
  LayerBuilder inputs;
  if (mla.q_lora_rank) add_down(inputs, b, WeightName::QueryDown, WeightName::QueryNorm);
  add_down(inputs, b, WeightName::MlaDown, WeightName::MlaNorm);
  LayerOperators queries = linear(b, WeightName::QueryUp), keys = linear(b, WeightName::MlaUp);
  share_input(queries, mla.q_lora_rank ? shared_latents(b, WeightName::QueryDown)
                                       : shared_residual(b, Module::MlaUp));
  share_input(keys, shared_latents(b, WeightName::MlaDown));
  inputs.add(Module::MlaUp, std::move(queries));
  inputs.add(Module::MlaUp, std::move(keys));
  const double t = static_cast<double>(b.tokens),
               per_head = t * (b.model.num_heads / b.strategy.tp);
  inputs.add(OperatorKind::Rotary, Module::MlaUp, "rotary", (per_head + t) * mla.qk_rope_head_dim,
             rotary_traffic(b.framework, b.element));
  inputs.add(OperatorKind::Copy, Module::MlaUp, "assemble_keys", per_head * query_head_dim(b.model),
             permutation_traffic(b.element));
  return std::move(inputs).build();
}

LayerOperators attention_half(const Block& b) {
  LayerBuilder half;
  add_norm(half, b, "attention_norm");
  half.add(b.model.mla ? mla_inputs(b, *b.model.mla) : attention_inputs(b));
  half.add(Module::CoreAttention, lower_attention_core(b.model, b.strategy, b.framework));
  if (b.model.attention_gate)
    half.add(OperatorKind::Activation, Module::AttentionOutput, "attention_gate",
             static_cast<double>(b.tokens * b.on_rank(WeightName::AttentionOutput).rows),
             activation_traffic(true, b.framework, b.element));
  half.add(Module::AttentionOutput, linear(b, WeightName::AttentionOutput));
  if (!b.model.parallel_block) add_reduction(half, b, Module::AttentionOutput);
  if (b.model.norms_per_layer >= 4) add_norm(half, b, "post_attention_norm");
  if (!b.model.parallel_block) add_residual(half, b, "attention_residual");
  return std::move(half).build();
}

// A mixer of states: its gate stands within the scan, its norm after that.
LayerOperators mamba_half(const Block& b) {
  LayerBuilder half;
  add_norm(half, b, "mixer_norm");
  half.add(sharing_residual(b, Module::MixerInput, linear(b, WeightName::MixerInput)));
  half.add(lower_mamba_scan(b.model, b.strategy));
  half.add(OperatorKind::Norm, Module::MixerNorm, "gated_norm",
           static_cast<double>(b.tokens * b.on_rank(WeightName::GatedNorm).columns),
           norm_traffic(Norm::RmsNorm, b.framework, b.element));
  half.add(Module::MixerOutput, linear(b, WeightName::MixerOutput));
  add_reduction(half, b, Module::MixerOutput);
  add_residual(half, b, "mixer_residual");
  return std::move(half).build();
}

// What a gated delta net reads of the residual stream.
LayerOperators delta_net_inputs(const Block& b) {
  LayerBuilder inputs;
  inputs.add(linear(b, WeightName::MixerInput));
  inputs.add(linear(b, WeightName::MixerGates));
  return std::move(inputs).build();
}

// The norm of each head and the gate are kernels after the delta rule.
LayerOperators delta_net_half(const Block& b) {
  const double values = static_cast<double>(b.tokens * b.on_rank(WeightName::MixerOutput).rows);
  LayerBuilder half;
  add_norm(half, b, "mixer_norm");
  half.add(sharing_residual(b, Module::MixerInput, delta_net_inputs(b)));
  half.add(lower_delta_rule(b.model, b.strategy));
  half.add(OperatorKind::Norm, Module::MixerNorm, "gated_norm", values,
           norm_traffic(Norm::RmsNorm, b.framework, b.element));
  half.add(OperatorKind::Activation, Module::MixerNorm, "output_gate", values,
           activation_traffic(true, b.framework, b.element));
  half.add(Module::MixerOutput, linear(b, WeightName::MixerOutput));
  add_reduction(half, b, Module::MixerOutput);
  add_residual(half, b, "mixer_residual");
  return std::move(half).build();
}

// All tensor ranks need the whole of the steps' bottleneck, of B and of C, to whose gradients the
// channels of each add a part.
void add_selection(LayerBuilder& half, const Block& b) {
  const LayerWeight projection = b.on_rank(WeightName::SelectionProjection);
  const double values = static_cast<double>(b.tokens * projection.columns);
  const auto sum = [&](const char* label) {
    return collective(label, CollectiveKind::AllReduce, GroupKind::Tensor,
                      Bytes(values * b.element));
  };
  Traffic norms = norm_traffic(b.model.norm, b.framework, b.element);
  norms.forward_kernels *= 3, norms.backward_kernels *= 3;
  half.add(Module::Scan, lower_linear(b.linear, projection, b.tokens));
  if (b.strategy.tp > 1) half.add_forward(Module::Scan, sum("selection"));
  half.add(OperatorKind::Norm, Module::Scan, "selection_norms", values, norms);
  if (b.strategy.tp > 1) half.add_backward(Module::Scan, sum("selection_gradient"));
  half.add(Module::Scan, linear(b, WeightName::StepProjection));
}

LayerOperators mamba1_half(const Block& b) {
  LayerBuilder half;
  add_norm(half, b, "mixer_norm");
  half.add(sharing_residual(b, Module::MixerInput, linear(b, WeightName::MixerInput)));
  half.add(lower_mamba1_convolution(b.model, b.strategy));
  add_selection(half, b);
  half.add(lower_selective_scan(b.model, b.strategy));
  half.add(Module::MixerOutput, linear(b, WeightName::MixerOutput));
  add_reduction(half, b, Module::MixerOutput);
  add_residual(half, b, "mixer_residual");
  return std::move(half).build();
}

bool norms_twice(const Transformer& model) {
  return !model.parallel_block || model.norms_per_layer >= 2;
}

// What follows the second half's last GEMM, of `module`; `partial`: tensor ranks have a part of the
// sum each.  A parallel block adds the partial sums of attention and MLP before the one reduction
// that both share.
void end_half(LayerBuilder& half, const Block& b, Module module, bool partial = true) {
  if (b.model.parallel_block)
    half.add_forward(module, memory_bound(OperatorKind::Residual, "parallel_sum",
                                          static_cast<double>(b.tokens) * b.model.hidden_size,
                                          3 * b.element, 1));
  if (partial) add_reduction(half, b, module);
  if (b.model.norms_per_layer >= 4) add_norm(half, b, "post_mlp_norm");
  add_residual(half, b, "mlp_residual");
}

LayerOperators mlp_half(const Block& b) {
  LayerBuilder half;
  if (norms_twice(b.model)) add_norm(half, b, "mlp_norm");
  if (!b.model.parallel_block) {
    half.add(sharing_residual(b, Module::MlpUp, linear(b, WeightName::MlpUp)));
  } else if (!fuses_inputs(b)) {
    half.add(Module::MlpUp, linear(b, WeightName::MlpUp));
  }
  half.add(OperatorKind::Activation, Module::Activation, "activation",
           static_cast<double>(b.tokens * b.on_rank(WeightName::MlpDown).rows),
           activation_traffic(b.model.gated_mlp, b.framework, b.element));
  half.add(Module::MlpDown, linear(b, WeightName::MlpDown));
  end_half(half, b, Module::MlpDown);
  return std::move(half).build();
}

LayerOperators moe_half(const Block& b) {
  const bool gathers = !routes_shards(b.strategy, b.framework);
  LayerOperators experts = lower_experts(b.model, b.strategy, b.framework, b.linear);
  if (!b.model.parallel_block && gathers)
    share_input(experts, shared_residual(b, Module::MoeInput));
  LayerBuilder half;
  if (norms_twice(b.model)) add_norm(half, b, "mlp_norm");
  half.add(experts);
  end_half(half, b, Module::Combine, gathers);
  return std::move(half).build();
}

}  // namespace

LayerOperators lower_block(const Transformer& model, const Strategy& strategy,
                           const Framework& framework, RecomputeKind recompute, LayerKind kind,
                           const LayerOperators* attention) {
  const Block b = block_of(model, strategy, framework, kind);
  LayerBuilder halves;
  if (kind.has_attention()) halves.add(attention ? *attention : attention_half(b));
  if (kind.mixer == Mixer::Mamba2) halves.add(mamba_half(b));
  if (kind.mixer == Mixer::GatedDeltaNet) halves.add(delta_net_half(b));
  if (kind.mixer == Mixer::Mamba1) halves.add(mamba1_half(b));
  if (kind.mlp != LayerMlp::None) halves.add(kind.has_experts() ? moe_half(b) : mlp_half(b));
  LayerOperators block = std::move(halves).build();
  block.recompute =
      recomputed_operators(block.forward, model, strategy, framework, recompute, kind);
  return block;
}

LayerOperators lower_attention_half(const Transformer& model, const Strategy& strategy,
                                    const Framework& framework, LayerKind kind) {
  return attention_half(block_of(model, strategy, framework, kind));
}

}  // namespace llmsim::sim
