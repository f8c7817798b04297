#include "sim/operators/attention_core.h"

#include <algorithm>
#include <cmath>

#include "sim/base/dtype.h"
#include "sim/model/flops.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// Of the attention of one rank.
struct Core {
  LayerBuilder& b;
  const Transformer& model = b.model;
  const Strategy& strategy = b.strategy;
  DType dtype = activation_dtype(strategy.precision);
  std::int64_t heads = model.num_heads / strategy.tp;  // of this tensor rank
  // Keys and values are one, of all heads.
  bool latents = model.compressed_attention || (model.mla && model.sparse_attention);
  std::int64_t kv_heads = latents     ? 1
                          : model.mla ? heads
                                      : std::max(1, model.num_kv_heads / strategy.tp);
  std::int64_t query_dim = core_query_dim(model);  // of a query or key vector, and of a value
  std::int64_t value_dim = core_value_dim(model);
  std::int64_t ranks = strategy.cp;             // that divide a sequence
  std::int64_t tokens = model.seq_len / ranks;  // of this context rank
  GroupKind group = GroupKind::Context;         // of these ranks
  bool causal = !model.encoder;

  std::int64_t keys() const {
    const int document = document_len(model);
    const int seen = std::min(document, model.sliding_window.value_or(document));
    const auto entries = static_cast<std::int64_t>(compressed_entries(model));
    if (!model.sparse_attention) return seen + entries;
    const std::int64_t chosen = model.sparse_attention->top_k;
    return model.compressed_attention ? seen + std::min(chosen, entries)
                                      : std::min<std::int64_t>(seen, chosen);
  }
  // Of a packed sequence a document has this share.
  double document() const { return real(document_len(model)) / real(model.seq_len); }
  std::int64_t in_document(std::int64_t tokens_of_rank) const {
    return std::max<std::int64_t>(1, std::llround(document() * real(tokens_of_rank)));
  }
  // Every context rank has the same work.
  bool even() const { return !causal || strategy.cp_balanced; }

  // Scores of one head over a whole sequence: the first w queries of a causal window see a
  // triangle in each document.
  double area() const {
    const double s = real(model.seq_len), w = real(keys());
    if (model.compressed_attention) return s * attended_keys(model, 0, causal);
    return causal ? s * w - w * w / (2.0 * document()) : s * w;
  }

  // Elements of q and of the output, and bytes of k and v, on this rank.
  double queries() const { return real(strategy.micro_batch * tokens * heads * query_dim); }
  double outputs() const { return real(strategy.micro_batch * tokens * heads * value_dim); }
  Bytes keys_and_values() const {
    return real(strategy.micro_batch * tokens * kv_heads *
                (query_dim + (latents ? 0 : value_dim))) *
           size_of(dtype);
  }
};

// `launches` kernels of m queries and n keys that together have `scores` useful scores for each
// head.
Operator flash(const Core& core, std::int64_t heads, std::int64_t m, std::int64_t n, int launches,
               double scores) {
  const double kv = std::max(1.0, real(core.kv_heads * heads) / real(core.heads));
  const std::int64_t micro_batch = core.strategy.micro_batch,
                     dims = core.query_dim + core.value_dim;
  Operator op{.kind = OperatorKind::Attention, .label = "attention", .dtype = core.dtype};
  op.batch = micro_batch * heads;
  op.m = m;
  op.n = n;
  op.k = core.value_dim;
  op.causal = core.causal && n == document_len(core.model);
  op.kernels = op.launches = launches;
  op.flops = 2.0 * real(op.batch) * scores * real(dims) * FLOP;
  // Chosen keys are read anew for each query.
  const double own = real(micro_batch * dims * heads * m),
               keys = core.model.sparse_attention
                          ? real(micro_batch * m * n * core.kv_heads *
                                 (core.latents ? core.query_dim : dims))
                          : real(micro_batch * dims) * kv * real(std::max(m, n));
  const double io = own + keys;
  op.moved = Bytes(io * core.b.element * launches);
  return op;
}

// Forward, and backward with four GEMMs instead of two; the scores that the kernel recomputes, over
// the size of queries, are no model work.  Every rank waits for one that has `imbalance` of the
// mean work.
void add_kernel(LayerOperators& operators, const Core& core, Operator op, double imbalance = 1.0) {
  op.repeats = imbalance;
  operators.forward.push_back(op);
  op.label = "attention_backward";
  op.flops = 2.0 * op.flops;
  const double query = real(core.query_dim), value = real(core.value_dim);
  op.repeats = (3.0 * query + 2.0 * value) / (2.0 * (query + value)) * imbalance;
  op.moved = 2.0 * op.moved;
  op.kernels = 2 * op.launches;
  operators.backward.push_back(op);
}

LayerOperators one_kernel(const Core& core) {
  LayerOperators operators;
  add_kernel(operators, core,
             flash(core, core.heads, core.model.seq_len, core.keys(), 1, core.area()));
  return operators;
}

Operator hop(const Core& core, const char* label, Bytes message, int launches,
             bool overlaps_attention) {
  Operator op = collective(label, CollectiveKind::SendRecv, core.group, message);
  op.kernels *= launches;
  op.launches = launches;
  op.overlaps_attention = overlaps_attention;
  return op;
}

// Each partial result is added to an fp32 output; in the backward pass to the gradients of q, k and
// v.
void add_merge(LayerOperators& operators, const Core& core, double steps) {
  const double keys = core.keys_and_values().value() / core.b.element;
  operators.forward.push_back(memory_bound(OperatorKind::Residual, "context_merge", core.outputs(),
                                           steps * (core.b.element + 2.0 * kFp32Bytes),
                                           static_cast<int>(2 * steps)));
  operators.backward.push_back(memory_bound(OperatorKind::Residual, "context_merge_gradients",
                                            core.queries() + keys, steps * 3.0 * core.b.element,
                                            static_cast<int>(3 * steps)));
}

// Both passes start with a rank's own keys.
LayerOperators ring(const Core& core) {
  const std::int64_t tokens = core.tokens;
  const int steps = static_cast<int>(core.ranks - 1);
  const double m = real(tokens), whole = core.area() / real(core.ranks);
  const double square = core.document() * m * m, diagonal = core.causal ? square / 2.0 : square;
  const bool halves = core.causal && core.strategy.cp_balanced;
  LayerOperators operators;
  Operator own = flash(core, core.heads, tokens, core.in_document(tokens), 1, diagonal);
  own.causal = core.causal;
  add_kernel(operators, core, own);
  const std::int64_t keys = core.in_document(halves ? tokens / 2 : tokens);
  Operator others = flash(core, core.heads, tokens, keys, steps, whole - diagonal);
  others.causal = false;
  add_kernel(operators, core, others, core.even() ? 1.0 : 2.0);
  const Bytes message = core.keys_and_values();
  operators.forward.push_back(hop(core, "context_keys", message, steps, true));
  operators.backward.push_back(hop(core, "context_keys_gradients", 2.0 * message, steps, true));
  operators.backward.push_back(hop(core, "context_last_gradients", message, 1, false));
  add_merge(operators, core, steps);
  return operators;
}

LayerOperators gathered_keys(const Core& core) {
  const double ranks = real(core.ranks);
  const auto over_context_ranks = [&](const char* label, CollectiveKind kind) {
    return collective(label, kind, GroupKind::Context, ranks * core.keys_and_values());
  };
  LayerOperators operators;
  operators.forward.push_back(over_context_ranks("context_keys", CollectiveKind::AllGather));
  operators.backward.push_back(over_context_ranks("context_keys_again", CollectiveKind::AllGather));
  add_kernel(
      operators, core, flash(core, core.heads, core.tokens, core.keys(), 1, core.area() / ranks),
      core.even() || core.model.sliding_window || core.model.sparse_attention ? 1.0
                                                                              : 2.0 - 1.0 / ranks);
  operators.backward.push_back(
      over_context_ranks("context_key_gradients", CollectiveKind::ReduceScatter));
  return operators;
}

// Fewer key/value heads than ranks are sent to several of them.
double key_copies(const Core& core, std::int64_t ranks) {
  return std::max(1.0, real(ranks) / real(core.kv_heads));
}

// Heads for tokens over `ranks` ranks of a group, around the attention of what they give.
LayerOperators exchanged_heads(const Core& core, std::int64_t ranks, GroupKind group,
                               const LayerOperators& attention) {
  const Bytes q = core.queries() * size_of(core.dtype), out = core.outputs() * size_of(core.dtype),
              kv = key_copies(core, ranks) * core.keys_and_values();
  const auto exchange = [&](OperatorList& pass, const char* label, Bytes message) {
    pass.push_back(collective(label, CollectiveKind::AllToAll, group, message));
  };
  LayerOperators inputs, output;
  for (OperatorList* const pass : {&inputs.forward, &inputs.backward}) {
    for (const char* label : {"context_keys", "context_values"}) exchange(*pass, label, kv / 2.0);
    exchange(*pass, "context_queries", q);
  }
  for (OperatorList* const pass : {&output.forward, &output.backward})
    exchange(*pass, "context_output", out);
  return inputs.append(attention).append(output);
}

LayerOperators all_exchanged_heads(const Core& core) {
  LayerOperators attention;
  add_kernel(attention, core,
             flash(core, core.heads / core.ranks, core.model.seq_len, core.keys(), 1, core.area()));
  return exchanged_heads(core, core.ranks, GroupKind::Context, attention);
}

// Of the ring's rank, which the all-to-all gives the tokens of all its ranks and a share of heads.
Core outer_core(const Core& core) {
  const std::int64_t inner = core.strategy.context_inner_ranks();
  Core outer = core;
  outer.heads /= inner, outer.kv_heads = std::max<std::int64_t>(1, core.kv_heads / inner);
  outer.ranks /= inner, outer.tokens *= inner, outer.group = GroupKind::ContextOuter;
  return outer;
}

LayerOperators across_ranks(const Core& core) {
  switch (context_scheme_of(core.model, core.strategy)) {
    case ContextScheme::Ring: return ring(core);
    case ContextScheme::AllGather: return gathered_keys(core);
    case ContextScheme::AllToAll: return all_exchanged_heads(core);
    case ContextScheme::AllToAllRing: break;
  }
  return exchanged_heads(core, core.strategy.context_inner_ranks(), GroupKind::ContextInner,
                         ring(outer_core(core)));
}

// A kernel that works on blocks of queries, each from plain operators
// (runtime/kernels/attention.cpp): what is there while one block is at work, at most.
struct BlockwiseKernel {
  double batch, sequence, element;  // sequences times heads; tokens of one; bytes of a value
  double query_width, key_width, output_width, value_width;  // values of all heads in a token

  struct Peak {
    double forward = 0.0, backward = 0.0;
  };

  Peak peak() const {
    Peak all;
    for (double begin = 0.0; begin < sequence; begin += kAttentionBlock) {
      const double size = std::min<double>(kAttentionBlock, sequence - begin);
      const Peak one = block(size, begin + size);
      all.forward = std::max(all.forward, one.forward),
      all.backward = std::max(all.backward, one.backward);
    }
    return all;
  }

 private:
  // Of `size` queries that see `seen` keys.
  Peak block(double size, double seen) const {
    const double e = element, rows = batch * size, scores = rows * seen,
                 low = e < kFp32Bytes ? scores * e : 0.0;
    const double q = query_width * size * e, o = output_width * size * e, k = key_width * seen * e,
                 v = value_width * seen * e;
    // Queries and scores, then fp32 scores.
    const double made = std::max({q + scores * e, scores * kFp32Bytes + low});
    Peak peak;
    peak.forward = std::max(made, scores * kFp32Bytes + 2.0 * rows * kFp32Bytes + low + o);
    const double own = q + o + rows * kFp32Bytes, p = scores * e, sums = rows * e;
    peak.backward = own + std::max({made, scores * kFp32Bytes + low, p + v, p + 2.0 * o + sums,
                                    sums + 2.0 * p + std::max(q, k)});
    return peak;
  }
};

// Keys, values and gradients of other ranks that are on the device at once, or partial results;
// what an all-to-all gives is as large as what it takes.
Bytes context_workspace(const Core& core, const AttentionInputs& heads, TensorId output) {
  const LayerGraph& layer = core.b.layer;
  const Bytes own = layer.size(heads.k) + (heads.v == kNoTensor ? Bytes(0.0) : layer.size(heads.v));
  const auto of_ring = [&](std::int64_t ranks) {
    return 4.0 * own + (real(ranks) - 1.0) * layer.size(output);
  };
  switch (context_scheme_of(core.model, core.strategy)) {
    case ContextScheme::Ring: return of_ring(core.ranks);
    case ContextScheme::AllGather: return 2.0 * real(core.ranks) * own;
    case ContextScheme::AllToAll: return layer.size(heads.q) + key_copies(core, core.ranks) * own;
    case ContextScheme::AllToAllRing: break;
  }
  return layer.size(heads.q) + own + of_ring(outer_core(core).ranks);
}

BlockwiseKernel blockwise_kernel(const LayerBuilder& b, const AttentionInputs& heads,
                                 TensorId output) {
  const double s = real(b.model.seq_len);
  const auto width = [&](TensorId tensor) { return b.layer.size(tensor).value() / b.element / s; };
  return {.batch = b.strategy.micro_batch * (b.model.num_heads / b.ranks),
          .sequence = s,
          .element = b.element,
          .query_width = width(heads.q),
          .key_width = width(heads.k),
          .output_width = width(output),
          .value_width = width(heads.v)};
}

// The log-sum-exps are saved next to all that goes in and comes out.
void add_fused(const Core& core, const AttentionInputs& heads, TensorId output) {
  LayerBuilder& b = core.b;
  const TensorId sums = b.tensor("log-sum-exp", {b.tokens, b.model.num_heads / b.ranks, kFp32Bytes},
                                 TensorRole::Statistic);
  Node& node =
      b.layer.add(Module::CoreAttention, b.strategy.cp == 1 ? one_kernel(core) : across_ranks(core))
          .reads(heads.q, heads.k, heads.v, heads.choice)
          .writes(output, sums)
          .saves(heads.q, heads.k, heads.v, heads.choice, output, sums)
          .fused_attention();
  const AttentionKernel kernel = b.framework.attention_kernel;
  if (kernel == AttentionKernel::Blockwise || kernel == AttentionKernel::BlockwiseFp32) {
    const BlockwiseKernel::Peak peak = blockwise_kernel(b, heads, output).peak();
    node.forward_workspace(Bytes(peak.forward)).backward_workspace(Bytes(peak.backward));
  }
  if (b.strategy.cp > 1) node.backward_workspace(context_workspace(core, heads, output));
}

// The unfused core: a kernel for each step, on whole squares of scores.
TensorShape scores_of(const LayerBuilder& b, double element) {
  return {b.tokens, b.model.num_heads / b.ranks * real(b.model.seq_len), element};
}

std::int64_t matrices_of(const Core& core) { return core.strategy.micro_batch * core.heads; }

double squares_of(const Core& core) {
  return real(matrices_of(core) * core.model.seq_len) * real(core.model.seq_len);
}

Operator score_gemm(const Core& core, const char* label, std::int64_t n, std::int64_t k) {
  return gemm(label, matrices_of(core), core.model.seq_len, n, k,
              high_precision_matmul_dtype(core.strategy.precision), core.dtype);
}

LayerOperators score_operators(const Core& core) {
  const std::int64_t s = core.model.seq_len, d = core.query_dim;
  LayerOperators operators{.forward = {transposed(score_gemm(core, "attention_scores", s, d))},
                           .backward = {score_gemm(core, "attention_scores_dgrad_q", d, s),
                                        score_gemm(core, "attention_scores_dgrad_k", d, s)}};
  if (core.model.position == Position::Alibi) {
    const PassTraffic bias = position_bias_traffic(core.b.framework, core.b.element).forward;
    operators.forward.push_back(memory_bound(OperatorKind::Softmax, "position_bias",
                                             squares_of(core), bias.bytes, bias.kernels));
  }
  return operators;
}

LayerOperators weighted_sum(const Core& core) {
  const std::int64_t s = core.model.seq_len, v = core.value_dim;
  return {.forward = {score_gemm(core, "attention_values", v, s)},
          .backward = {transposed(score_gemm(core, "attention_values_dgrad", s, v)),
                       score_gemm(core, "attention_values_wgrad", v, s)}};
}

// Under autocast the softmax gives fp32, which is cast for the GEMM.
TensorId softmax(const Core& core, TensorId raw) {
  LayerBuilder& b = core.b;
  const bool one_kernel =
      b.framework.fusion != ElementwiseFusion::Fused ||
      (b.element <= 2.0 && softmax_kernel_takes(matrices_of(core), core.model.seq_len));
  const TensorId probabilities =
      b.tensor("attention probabilities", scores_of(b, b.autocasts() ? kFp32Bytes : b.element));
  Node& node = b.layer
                   .add(Module::CoreAttention,
                        elementwise(OperatorKind::Softmax, "softmax", squares_of(core),
                                    softmax_traffic(b.framework, b.element, one_kernel)))
                   .reads(raw)
                   .writes(probabilities)
                   .saves(probabilities);
  if (!b.eager()) node.gradient_in_place();
  return probabilities;
}

TensorId dropped_or_cast(LayerBuilder& b, TensorId probabilities) {
  if (b.framework.dropout > 0.0) {
    const TensorId dropped =
                       b.tensor("attention probabilities after dropout", scores_of(b, b.element)),
                   mask =
                       b.tensor("attention dropout mask", scores_of(b, 1.0), TensorRole::Statistic);
    b.layer.add(Module::CoreAttention)
        .reads(probabilities)
        .writes(dropped, mask)
        .saves(mask)
        .gradient_in_place();
    return dropped;
  }
  if (!b.autocasts()) return probabilities;
  const TensorId cast = b.tensor("attention probabilities", scores_of(b, b.element));
  b.layer.add(Module::CoreAttention).reads(probabilities).writes(cast);
  return cast;
}

void add_unfused(const Core& core, const AttentionInputs& heads, TensorId output) {
  LayerBuilder& b = core.b;
  const TensorId raw = b.tensor("attention scores", scores_of(b, b.element));
  b.layer.add(Module::CoreAttention, score_operators(core))
      .reads(heads.q, heads.k)
      .writes(raw)
      .saves(heads.q, heads.k);
  const TensorId weights = dropped_or_cast(b, softmax(core, raw));
  const TensorId by_heads = b.tensor("attention by heads", b.layer[output].shape);
  b.layer.add(Module::CoreAttention, weighted_sum(core))
      .reads(weights, heads.v)
      .writes(by_heads)
      .saves(weights, heads.v);
  b.layer
      .add(Module::CoreAttention,
           elementwise(OperatorKind::Copy, "attention_layout", core.queries() + core.outputs(),
                       layout_traffic(b.framework, b.element)))
      .reads(by_heads)
      .writes(output);
}

}  // namespace

TensorId add_attention_core(LayerBuilder& layer, const AttentionInputs& heads) {
  const Core core{layer};
  const TensorId output = layer.values("attention output", real(core.heads * core.value_dim));
  if (layer.strategy.flash_attention)
    add_fused(core, heads, output);
  else
    add_unfused(core, heads, output);
  return output;
}

ContextScheme context_scheme_of(const Transformer& model, const Strategy& strategy) {
  const bool windowed = model.sparse_attention.has_value() ||
                        (model.sliding_window && *model.sliding_window < model.seq_len);
  const ContextScheme scheme = strategy.context_scheme();
  const bool rings = scheme == ContextScheme::Ring || scheme == ContextScheme::AllToAllRing;
  return windowed && rings ? ContextScheme::AllGather : scheme;
}

}  // namespace llmsim::sim
