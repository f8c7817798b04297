#include "sim/operators/attention.h"

#include <algorithm>

#include "sim/operators/attention_core.h"
#include "sim/operators/compressed_attention.h"
#include "sim/operators/indexer.h"
#include "sim/operators/mla.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

LayerOperators joined_inputs(const LayerBuilder& b) {
  const LayerWeight qkv = b.weight(WeightName::Qkv), up = b.weight(WeightName::MlpUp);
  LayerOperators joined =
      lower_linear(b.linear, "qkv_mlp_up", b.num_tokens, qkv.columns + up.columns, qkv.rows);
  for (const LayerWeight& weight : {qkv, up}) {
    add_bias_gradient(joined, b.linear, weight, b.num_tokens);
    add_adapters(joined, b.linear, weight, b.num_tokens);
  }
  return joined;
}

// Values of a token on this rank: of queries, keys and values, and of what attention gives and its
// gate.
struct HeadWidths {
  double q, k, v, output, gate;
};

HeadWidths head_widths(const LayerBuilder& b) {
  const double gate = attention_gate_width(b.model) / b.ranks,
               output = b.rows(WeightName::AttentionOutput),
               q = b.model.num_heads / b.ranks * b.model.head_dim,
               kv = b.columns(WeightName::Qkv) - (b.model.query_rank ? 0.0 : q) - gate,
               v = output / (q + output) * (b.model.keys_as_values ? 2.0 * kv : kv);
  if (b.model.shares_keys) return {.q = q, .k = 0.0, .v = 0.0, .output = output, .gate = gate};
  return {
      .q = q, .k = b.model.keys_as_values ? kv : kv - v, .v = v, .output = output, .gate = gate};
}

// What the GEMM gives is copied by heads.
AttentionInputs copied_heads(LayerBuilder& b, const TensorId& joined, HeadWidths width) {
  const AttentionInputs heads{
      .q = b.values("q", width.q), .k = b.values("k", width.k), .v = b.values("v", width.v)};
  b.layer.add(Module::Qkv).reads(joined).writes(heads.q, heads.k, heads.v);
  return heads;
}

AttentionInputs separate_heads(LayerBuilder& b, HeadWidths width) {
  const bool expanded = b.framework.saved.expanded_kv_heads && !b.model.shares_keys;
  AttentionInputs heads{.q = b.values("q", width.q),
                        .k = b.values("k", expanded ? width.q : width.k),
                        .v = b.values("v", expanded ? width.output : width.v)};
  if (width.gate > 0.0) heads.gate = b.values("attention gate", width.gate);
  return heads;
}

double queries_and_keys(const LayerBuilder& b) {
  const std::int64_t heads = b.model.num_heads / b.strategy.tp,
                     kv_heads = b.model.shares_keys
                                    ? 0
                                    : std::max(1, b.model.num_kv_heads / b.strategy.tp);
  return real(b.num_tokens * (heads + kv_heads) * b.model.head_dim);
}

LayerOperators qk_norm(const LayerBuilder& b) {
  if (b.model.qk_norm == QkNorm::None) return {};
  Traffic traffic = norm_traffic(b.model.norm, b.framework, b.element);
  traffic.forward.kernels *= 2, traffic.backward.kernels *= 2;
  return elementwise(OperatorKind::Norm, "qk_norm", queries_and_keys(b), traffic);
}

// Queries from their bottleneck, keys and values from the residual stream.
AttentionInputs add_factored_queries(LayerBuilder& b, TensorId normed) {
  const HeadWidths width = head_widths(b);
  AttentionInputs heads{.q = kNoTensor, .k = b.values("k", width.k), .v = b.values("v", width.v)};
  heads.q = up_from(b, add_query_latents(b, normed), shared_latents(b, WeightName::QueryDown), "q",
                    WeightName::QueryUp);
  b.column_gemm(b.linear_layer(Module::Qkv, WeightName::Qkv), b.shared_residual(Module::Qkv),
                normed, {heads.k, heads.v}, b.saves_input(WeightName::Qkv));
  if (b.model.qk_norm != QkNorm::None)
    b.save_extra(Module::Qkv, "q and k before their norms",
                 {b.tokens, width.q + width.k, b.element}, qk_norm(b));
  return heads;
}

AttentionInputs add_qkv(LayerBuilder& b, TensorId normed) {
  if (b.model.query_rank) return add_factored_queries(b, normed);
  const HeadWidths width = head_widths(b);
  const LayerBuilder::Linear qkv{
      Module::Qkv, b.weight(WeightName::Qkv),
      fuses_inputs(b.model, b.framework) ? joined_inputs(b) : b.linear_of(WeightName::Qkv)};
  const SharedInput input = b.shared_residual(Module::Qkv);
  if (!b.autograd()) {
    const TensorId joined = b.values("qkv", b.columns(WeightName::Qkv));
    b.column_gemm(qkv, input, normed, {joined}, true);
    const AttentionInputs heads = copied_heads(b, joined, width);
    b.layer.add(Module::Qkv, qk_norm(b));
    return heads;
  }
  const AttentionInputs heads = separate_heads(b, width);
  b.column_gemm(qkv, input, normed, {heads.q, heads.k, heads.v, heads.gate},
                b.saves_input(WeightName::Qkv));
  const TensorShape both{b.tokens, width.q + width.k, b.element};
  if (b.model.qk_norm != QkNorm::None)
    b.save_extra(Module::Qkv, "q and k before their norms", both, qk_norm(b));
  if (b.adapts(WeightName::Qkv)) b.save_adapter_dropout(b.own_tokens(), b.model.hidden_size);
  if (b.framework.saved.fused_qkv) b.save_extra(Module::Qkv, "q and k before rotary", both);
  return heads;
}

// A single sequence is transposed by a view; ring attention merges partial results into a new
// tensor instead.
bool copies_attention_output(const LayerBuilder& b) {
  const AttentionKernel kernel = b.framework.attention_kernel;
  const bool flash = kernel == AttentionKernel::Flash1 || kernel == AttentionKernel::Flash2 ||
                     kernel == AttentionKernel::Flash3 || kernel == AttentionKernel::Flash4;
  return b.framework.saved.flash_output_copied && b.strategy.flash_attention && flash &&
         b.strategy.cp == 1 && b.strategy.micro_batch > 1;
}

// The output of attention times the sigmoid of its gate.
TensorId gated(LayerBuilder& b, const AttentionInputs& heads, TensorId core) {
  if (attention_gate_width(b.model) == 0) return core;
  Node& node = b.layer.add(Module::AttentionOutput,
                           elementwise(OperatorKind::Activation, "attention_gate",
                                       b.tokens * b.rows(WeightName::AttentionOutput),
                                       activation_traffic(true, b.framework, b.element)));
  if (heads.gate == kNoTensor) return core;
  const TensorId product = b.tensor("gated attention output", b.layer[core].shape);
  node.reads(core, heads.gate).writes(product).saves(core, heads.gate);
  return product;
}

AttentionInputs add_heads(LayerBuilder& b, TensorId normed) {
  if (b.model.compressed_attention) return add_compressed_heads(b, normed);
  if (!b.model.mla) {
    AttentionInputs heads = add_qkv(b, normed);
    if (b.model.sparse_attention) heads.choice = add_indexer(b, normed, normed, {});
    return heads;
  }
  return b.model.sparse_attention ? add_sparse_mla(b, normed) : add_mla(b, normed);
}

}  // namespace

bool fuses_inputs(const Transformer& model, const Framework& framework) {
  return model.parallel_block && model.norms_per_layer == 1 && framework.fuses_parallel_inputs;
}

TensorId add_attention(LayerBuilder& b, TensorId normed, bool alone) {
  const AttentionInputs heads = add_heads(b, normed);
  if (!b.model.mla && !b.model.compressed_attention && b.model.position == Position::Rope)
    b.layer.add(Module::Qkv, elementwise(OperatorKind::Rotary, "rotary", queries_and_keys(b),
                                         rotary_traffic(b.framework, b.element)));
  TensorId core = gated(b, heads, add_attention_core(b, heads));
  if (b.model.mla && b.model.sparse_attention) core = values_from_latents(b, core);
  if (b.model.compressed_attention) core = grouped_output(b, core);
  if (copies_attention_output(b))
    b.save_extra(Module::AttentionOutput, "copy of the attention output", b.layer[core].shape);
  if (alone) b.layer.end_of_needed();
  return b.row_gemm("stream after attention",
                    b.linear_layer(Module::AttentionOutput, WeightName::AttentionOutput), core,
                    b.saves_input(WeightName::AttentionOutput));
}

}  // namespace llmsim::sim
