#include "sim/operators/indexer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/dtype.h"
#include "sim/model/flops.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

constexpr double kIndexBytes = 4.0;

// What a linear layer does whose input gets no gradient.
LayerOperators detached(LayerOperators linear) {
  std::erase_if(linear.backward, [](const Operator& op) {
    return op.kind == OperatorKind::Gemm && !op.weight_gradient;
  });
  return linear;
}

// All tokens of what tensor ranks share out, without a gradient.
TensorId detached_input(LayerBuilder& b, const char* name, TensorId own, const SharedInput& input) {
  if (!b.gathers) return own;
  const TensorId whole = b.tensor(name, b.of_all_ranks(own), TensorRole::Statistic);
  b.layer.add(Module::Qkv).reads(own).writes(whole);
  if (input.gather) b.layer.add_forward(Module::Qkv, *input.gather);
  return whole;
}

TensorId index_values(LayerBuilder& b, const char* name, TensorId x, WeightName weight) {
  const TensorId y = b.values(name, real(b.weights[weight].columns));
  b.layer.add(Module::Qkv, detached(lower_linear(b.linear, b.weights[weight], b.num_tokens)))
      .reads(x)
      .writes(y)
      .saves(x);
  return y;
}

// Of so many tokens: one each, or one for each entry of compressed attention.
double keys_of_tokens(const Transformer& model, double tokens) {
  return model.compressed_attention ? tokens / model.compressed_attention->entry_size : tokens;
}

// Scores of all keys before a query, and the best of them.
LayerOperators choice_of_keys(const LayerBuilder& b, const SparseAttention& sparse) {
  const double keys = scored_keys(b.model, 0, true), pairs = b.tokens * keys,
               kept = keys_of_tokens(b.model, b.tokens) * b.strategy.cp;
  Operator scores{.kind = OperatorKind::Attention,
                  .label = "index_scores",
                  .dtype = activation_dtype(b.strategy.precision)};
  scores.batch = std::int64_t{b.strategy.micro_batch} * sparse.num_heads;
  scores.m = b.num_tokens / b.strategy.micro_batch,
  scores.n = static_cast<std::int64_t>(keys_of_tokens(b.model, b.model.seq_len));
  scores.k = sparse.head_dim, scores.causal = true;
  scores.flops = 2.0 * pairs * sparse.num_heads * sparse.head_dim * FLOP;
  const double read = (b.tokens * sparse.num_heads + kept) * sparse.head_dim;
  scores.moved = Bytes(read * b.element + pairs * kFp32Bytes);
  LayerOperators operators;
  if (b.strategy.cp > 1)
    operators.forward.push_back(collective("index_keys", CollectiveKind::AllGather,
                                           GroupKind::Context,
                                           Bytes(kept * sparse.head_dim * b.element)));
  operators.forward.push_back(scores);
  operators.forward.push_back(memory_bound(OperatorKind::Softmax, "top_k", pairs, kFp32Bytes, 1));
  scores.label = "index_scores_backward", scores.kernels = 2;
  scores.flops = 2.0 * scores.flops, scores.moved = 2.0 * scores.moved;
  operators.backward = {scores};
  return operators;
}

}  // namespace

TensorId add_indexer(LayerBuilder& b, TensorId normed, TensorId query_input,
                     const SharedInput& query_gather) {
  const SparseAttention& sparse = *b.model.sparse_attention;
  if (sparse.num_heads == 0) return kNoTensor;
  const TensorId x = detached_input(b, "tokens of all tensor ranks", normed,
                                    b.shared_residual(Module::Qkv)),
                 queries = query_input == normed
                               ? x
                               : detached_input(b, "query latents of all tensor ranks", query_input,
                                                query_gather);
  const TensorId q = index_values(b, "index queries", queries, WeightName::IndexQuery),
                 k = index_values(b, "index keys", x, WeightName::IndexKey),
                 w = b.weights[WeightName::IndexWeights].columns > 0
                         ? index_values(b, "index weights", x, WeightName::IndexWeights)
                         : kNoTensor;
  b.save_extra(
      Module::Qkv, "index keys before their norm", b.layer[k].shape,
      elementwise(OperatorKind::Norm, name_of(WeightName::IndexNorm), b.tokens * sparse.head_dim,
                  norm_traffic(Norm::LayerNorm, b.framework, b.element)));
  const int keys = std::min(sparse.top_k, b.model.seq_len);
  const TensorId choice =
      b.tensor("chosen keys", {b.tokens, std::ceil(real(keys) / sparse.block), kIndexBytes},
               TensorRole::Statistic);
  b.layer.add(Module::CoreAttention, choice_of_keys(b, sparse))
      .reads(q, k, w)
      .writes(choice)
      .saves(q, k, w)
      .forward_workspace(Bytes(b.tokens * keys_of_tokens(b.model, b.model.seq_len) * kFp32Bytes));
  return choice;
}

}  // namespace llmsim::sim
