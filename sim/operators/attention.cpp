#include "sim/operators/attention.h"

#include <algorithm>

#include "sim/operators/attention_core.h"
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

// Values of queries and of keys, or values, of a token on this rank.
struct HeadWidths {
  double q, kv;
};

HeadWidths head_widths(const LayerBuilder& b) {
  const double q = b.rows(WeightName::AttentionOutput),
               queries = b.model.attention_gate ? 2.0 * q : q;
  return {.q = q, .kv = (b.columns(WeightName::Qkv) - queries) / 2.0};
}

// What the GEMM gives is copied by heads.
AttentionInputs copied_heads(LayerBuilder& b, const TensorId& joined, HeadWidths width) {
  const AttentionInputs heads{
      .q = b.values("q", width.q), .k = b.values("k", width.kv), .v = b.values("v", width.kv)};
  b.layer.add(Module::Qkv).reads(joined).writes(heads.q, heads.k, heads.v);
  return heads;
}

AttentionInputs separate_heads(LayerBuilder& b, HeadWidths width) {
  const double expanded = b.framework.saved.expanded_kv_heads ? width.q : width.kv;
  AttentionInputs heads{
      .q = b.values("q", width.q), .k = b.values("k", expanded), .v = b.values("v", expanded)};
  if (b.model.attention_gate) heads.gate = b.values("attention gate", width.q);
  return heads;
}

double queries_and_keys(const LayerBuilder& b) {
  const std::int64_t heads = b.model.num_heads / b.strategy.tp,
                     kv_heads = std::max(1, b.model.num_kv_heads / b.strategy.tp);
  return real(b.num_tokens * (heads + kv_heads) * b.model.head_dim);
}

LayerOperators qk_norm(const LayerBuilder& b) {
  if (b.model.qk_norm == QkNorm::None) return {};
  Traffic traffic = norm_traffic(b.model.norm, b.framework, b.element);
  traffic.forward.kernels *= 2, traffic.backward.kernels *= 2;
  return elementwise(OperatorKind::Norm, "qk_norm", queries_and_keys(b), traffic);
}

AttentionInputs add_qkv(LayerBuilder& b, TensorId normed) {
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
  const TensorShape both{b.tokens, width.q + width.kv, b.element};
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
                     kernel == AttentionKernel::Flash3;
  return b.framework.saved.flash_output_copied && b.strategy.flash_attention && flash &&
         b.strategy.cp == 1 && b.strategy.micro_batch > 1;
}

// Into a bottleneck, on this rank's own tokens with the whole weight: the GEMM, and the norm of its
// first values.
TensorId add_latents(LayerBuilder& b, TensorId normed, const char* name, WeightName matrix,
                     WeightName norm) {
  const std::int64_t tokens =
      b.strategy.sequence_parallel ? b.num_tokens / b.strategy.tp : b.num_tokens;
  const TensorId down = b.tensor(name, {b.own_tokens(), b.columns(matrix), b.element});
  b.gemm({Module::Qkv, b.weight(matrix), lower_linear(b.linear, b.weights[matrix], tokens)}, normed,
         {down}, normed);
  return b.latent_norm(name_of(norm), down, b.weight(norm).columns);
}

// Each tensor rank projects the latents of all tokens up.  Megatron-LM gathers them within the
// GEMMs up: where those are recomputed they are gathered again, and once more for the gradient of
// the weights, as before any column-parallel GEMM
// (megatron/core/transformer/multi_latent_attention.py, qkv_up_proj_and_rope_apply).
SharedInput shared_latents(const LayerBuilder& b, WeightName down) {
  return b.shared_input(Module::MlaUp, {"latents", "mla_again", "mla_gradient"},
                        Bytes(real(b.num_tokens * b.weights[down].columns) * b.element));
}

TensorId up_from(LayerBuilder& b, TensorId latents, const SharedInput& input, const char* name,
                 WeightName matrix) {
  const TensorId rows = b.values(name, b.columns(matrix));
  b.column_gemm(b.linear_layer(Module::MlaUp, matrix), input, latents, {rows}, true);
  return rows;
}

LayerOperators assembled_keys(const LayerBuilder& b, const Mla& mla) {
  const double t = b.tokens, per_head = t * (b.model.num_heads / b.strategy.tp);
  LayerOperators operators =
      elementwise(OperatorKind::Rotary, "rotary", (per_head + t) * mla.qk_rope_head_dim,
                  rotary_traffic(b.framework, b.element));
  return operators.append(elementwise(OperatorKind::Copy, "assemble_keys",
                                      per_head * query_head_dim(b.model),
                                      permutation_traffic(b.element)));
}

// Every tensor rank has the latents of its tokens, and gathers those of all for the GEMMs up.
AttentionInputs add_mla(LayerBuilder& b, TensorId normed, const Mla& mla) {
  const Bytes rope(b.tokens * mla.qk_rope_head_dim * b.element);
  const TensorId query_input =
      mla.q_lora_rank
          ? add_latents(b, normed, "query latents", WeightName::QueryDown, WeightName::QueryNorm)
          : normed;
  const TensorId key_input =
      add_latents(b, normed, "key and value latents", WeightName::MlaDown, WeightName::MlaNorm);
  const double queries = b.columns(WeightName::QueryUp);
  const AttentionInputs heads{.q = b.values("q", queries),
                              .k = b.values("k", queries),
                              .v = b.values("v", b.rows(WeightName::AttentionOutput))};
  const TensorId query_rows = up_from(
      b, query_input,
      mla.q_lora_rank ? shared_latents(b, WeightName::QueryDown) : b.shared_residual(Module::MlaUp),
      "q before rotary", WeightName::QueryUp);
  b.layer.add(Module::MlaUp).reads(query_rows).writes(heads.q);
  const TensorId key_rows = up_from(b, key_input, shared_latents(b, WeightName::MlaDown),
                                    "keys and values", WeightName::MlaUp);
  b.layer.add(Module::MlaUp, assembled_keys(b, mla))
      .reads(key_rows)
      .writes(heads.k, heads.v)
      .forward_workspace(rope)
      .backward_workspace(rope);
  return heads;
}

// The output of attention times the sigmoid of its gate.
TensorId gated(LayerBuilder& b, const AttentionInputs& heads, TensorId core) {
  if (!b.model.attention_gate) return core;
  Node& node = b.layer.add(Module::AttentionOutput,
                           elementwise(OperatorKind::Activation, "attention_gate",
                                       b.tokens * b.rows(WeightName::AttentionOutput),
                                       activation_traffic(true, b.framework, b.element)));
  if (heads.gate == kNoTensor) return core;
  const TensorId product = b.tensor("gated attention output", b.layer[core].shape);
  node.reads(core, heads.gate).writes(product).saves(core, heads.gate);
  return product;
}

}  // namespace

bool fuses_inputs(const Transformer& model, const Framework& framework) {
  return model.parallel_block && model.norms_per_layer == 1 && framework.fuses_parallel_inputs;
}

TensorId add_attention(LayerBuilder& b, TensorId normed, bool alone) {
  const AttentionInputs heads = b.model.mla ? add_mla(b, normed, *b.model.mla) : add_qkv(b, normed);
  if (!b.model.mla && b.model.position == Position::Rope)
    b.layer.add(Module::Qkv, elementwise(OperatorKind::Rotary, "rotary", queries_and_keys(b),
                                         rotary_traffic(b.framework, b.element)));
  const TensorId core = gated(b, heads, add_attention_core(b, heads));
  if (copies_attention_output(b))
    b.save_extra(Module::AttentionOutput, "copy of the attention output", b.layer[core].shape);
  if (alone) b.layer.end_of_needed();
  return b.row_gemm("stream after attention",
                    b.linear_layer(Module::AttentionOutput, WeightName::AttentionOutput), core,
                    b.saves_input(WeightName::AttentionOutput));
}

}  // namespace llmsim::sim
