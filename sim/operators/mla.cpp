#include "sim/operators/mla.h"

#include "sim/base/dtype.h"
#include "sim/operators/indexer.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

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

LayerOperators assembled_keys(const LayerBuilder& b, const Mla& mla) {
  const double t = b.tokens, per_head = t * (b.model.num_heads / b.strategy.tp);
  LayerOperators operators =
      elementwise(OperatorKind::Rotary, "rotary", (per_head + t) * mla.qk_rope_head_dim,
                  rotary_traffic(b.framework, b.element));
  return operators.append(elementwise(OperatorKind::Copy, "assemble_keys",
                                      per_head * query_head_dim(b.model),
                                      permutation_traffic(b.element)));
}

// Latents of all tokens with their rotary part.
TensorId whole_latents(LayerBuilder& b, TensorId own, const Mla& mla) {
  return of_whole_latents(b, "latents of all tensor ranks", own, [&](TensorId gathered) {
    const double width = mla.kv_lora_rank + mla.qk_rope_head_dim;
    const TensorId latents = b.values("latents", width);
    LayerOperators operators =
        elementwise(OperatorKind::Rotary, "rotary", b.tokens * mla.qk_rope_head_dim,
                    rotary_traffic(b.framework, b.element));
    b.layer
        .add(Module::MlaUp,
             operators.append(elementwise(OperatorKind::Copy, "assemble_keys", b.tokens * width,
                                          permutation_traffic(b.element))))
        .reads(gathered)
        .writes(latents);
    return latents;
  });
}

// Of the queries' rows, whose plain part goes on to the latents of keys.
TensorId absorbed_queries(LayerBuilder& b, TensorId rows, const Mla& mla) {
  const double heads = b.model.num_heads / b.ranks;
  const TensorId q = b.values("q", heads * core_query_dim(b.model));
  LayerOperators operators =
      elementwise(OperatorKind::Rotary, "rotary", b.tokens * heads * mla.qk_rope_head_dim,
                  rotary_traffic(b.framework, b.element));
  b.layer
      .add(Module::MlaUp,
           operators.append(by_heads(b, "absorb_keys", b.model.num_heads / b.strategy.tp,
                                     mla.qk_nope_head_dim, mla.kv_lora_rank)))
      .reads(rows)
      .writes(q)
      .saves(rows);
  return q;
}

}  // namespace

TensorId add_query_latents(LayerBuilder& b, TensorId normed) {
  return add_latents(b, normed, "query latents", WeightName::QueryDown, WeightName::QueryNorm);
}

TensorId add_key_latents(LayerBuilder& b, TensorId normed) {
  return add_latents(b, normed, "key and value latents", WeightName::MlaDown, WeightName::MlaNorm);
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

LayerOperators by_heads(const LayerBuilder& b, const char* label, std::int64_t heads,
                        std::int64_t from, std::int64_t to) {
  const DType dtype = high_precision_matmul_dtype(b.strategy.precision),
              out = activation_dtype(b.strategy.precision);
  Operator weight = gemm(label, heads, from, to, b.num_tokens, dtype, out);
  weight.weight_gradient = true;
  return {.forward = {gemm(label, heads, b.num_tokens, to, from, dtype, out)},
          .backward = {gemm(label, heads, b.num_tokens, from, to, dtype, out), weight}};
}

// Every tensor rank has the latents of its tokens, and gathers those of all for the GEMMs up.
AttentionInputs add_mla(LayerBuilder& b, TensorId normed) {
  const Mla& mla = *b.model.mla;
  const Bytes rope(b.tokens * mla.qk_rope_head_dim * b.element);
  const TensorId query_input = mla.q_lora_rank ? add_query_latents(b, normed) : normed;
  const TensorId key_input = add_key_latents(b, normed);
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

AttentionInputs add_sparse_mla(LayerBuilder& b, TensorId normed) {
  const Mla& mla = *b.model.mla;
  const TensorId query_latents = add_query_latents(b, normed);
  const TensorId own_latents = add_key_latents(b, normed);
  AttentionInputs heads{.q = kNoTensor, .k = kNoTensor, .v = kNoTensor};
  heads.choice = add_indexer(b, normed, query_latents, shared_latents(b, WeightName::QueryDown));
  const TensorId rows = up_from(b, query_latents, shared_latents(b, WeightName::QueryDown),
                                "q before absorption", WeightName::QueryUp);
  heads.q = absorbed_queries(b, rows, mla);
  heads.k = whole_latents(b, own_latents, mla);
  return heads;
}

TensorId values_from_latents(LayerBuilder& b, TensorId core) {
  const Mla& mla = *b.model.mla;
  const TensorId values =
      b.values("attention output by heads", b.rows(WeightName::AttentionOutput));
  b.layer
      .add(Module::MlaUp, by_heads(b, "values_up", b.model.num_heads / b.strategy.tp,
                                   mla.kv_lora_rank, mla.v_head_dim))
      .reads(core)
      .writes(values)
      .saves(core);
  return values;
}

}  // namespace llmsim::sim
