#include "sim/operators/compressed_attention.h"

#include "sim/operators/indexer.h"
#include "sim/operators/mla.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

LayerOperators rotary(const LayerBuilder& b, double values) {
  return elementwise(OperatorKind::Rotary, "rotary", values,
                     rotary_traffic(b.framework, b.element));
}

// The norms of heads have no weights.
TensorId add_queries(LayerBuilder& b, TensorId latents) {
  const double width = b.columns(WeightName::QueryUp);
  const TensorId rows = up_from(b, latents, shared_latents(b, WeightName::QueryDown),
                                "q before its norm", WeightName::QueryUp);
  const TensorId q = b.values("q", width);
  LayerOperators operators = elementwise(OperatorKind::Norm, "qk_norm", b.tokens * width,
                                         norm_traffic(Norm::RmsNorm, b.framework, b.element));
  b.layer.add(Module::MlaUp, operators.append(rotary(b, b.tokens * width)))
      .reads(rows)
      .writes(q)
      .saves(rows);
  return q;
}

// Weighted means of windows of tokens, of this rank's own.
TensorId add_entries(LayerBuilder& b, TensorId normed) {
  const LayerWeight input = b.weights[WeightName::CompressorInput];
  const double own = b.own_tokens(), d = b.model.head_dim;
  const auto tokens = static_cast<std::int64_t>(own);
  const TensorId parts = b.tensor("parts of entries", {own, real(input.columns), b.element}),
                 entries = b.tensor("entries",
                                    {own / b.model.compressed_attention->entry_size, d, b.element});
  b.gemm({Module::Qkv, input, lower_linear(b.linear, input, tokens)}, normed, {parts}, normed);
  b.layer
      .add(Module::Qkv, elementwise(OperatorKind::Softmax, "compress", own * real(input.columns),
                                    norm_traffic(Norm::RmsNorm, b.framework, b.element)))
      .reads(parts)
      .writes(entries)
      .saves(parts);
  return entries;
}

// Keys and entries of all tensor ranks, one after the other.
TensorId add_keys(LayerBuilder& b, TensorId normed) {
  const double d = b.model.head_dim;
  const bool compresses = b.model.compressed_attention->entry_size > 0;
  const TensorId own = add_key_latents(b, normed),
                 entries = compresses ? add_entries(b, normed) : kNoTensor;
  const double rows =
      compresses ? b.tokens * (1.0 + 1.0 / b.model.compressed_attention->entry_size) : b.tokens;
  return of_whole_latents(b, "keys of all tensor ranks", own, [&](TensorId gathered) {
    const TensorId keys = b.tensor("keys and entries", {rows, d, b.element});
    b.layer.add(Module::MlaUp, rotary(b, rows * d)).reads(gathered, entries).writes(keys);
    return keys;
  });
}

}  // namespace

AttentionInputs add_compressed_heads(LayerBuilder& b, TensorId normed) {
  const TensorId latents = add_query_latents(b, normed);
  AttentionInputs heads{.q = kNoTensor, .k = kNoTensor, .v = kNoTensor};
  if (b.model.sparse_attention)
    heads.choice = add_indexer(b, normed, latents, shared_latents(b, WeightName::QueryDown));
  heads.q = add_queries(b, latents);
  heads.k = add_keys(b, normed);
  return heads;
}

TensorId grouped_output(LayerBuilder& b, TensorId core) {
  const CompressedAttention& attention = *b.model.compressed_attention;
  const std::int64_t groups = attention.output_groups / b.strategy.tp;
  const double width = b.layer[core].shape.columns;
  const TensorId grouped =
      b.values("grouped attention output", real(groups * attention.output_rank));
  LayerOperators operators = rotary(b, b.tokens * width);
  b.layer
      .add(Module::AttentionOutput,
           operators.append(by_heads(b, "output_groups", groups,
                                     static_cast<std::int64_t>(width) / groups,
                                     attention.output_rank)))
      .reads(core)
      .writes(grouped)
      .saves(core);
  return grouped;
}

}  // namespace llmsim::sim
