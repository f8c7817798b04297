#include "sim/operators/attention_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/dtype.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// Of the attention of one rank.
struct Core {
  const Transformer& model;
  const Strategy& strategy;
  const Framework& framework;
  DType dtype;
  double element;      // bytes
  std::int64_t heads;  // of this tensor rank
  std::int64_t kv_heads;
  std::int64_t query_dim;  // of a query or key vector, and of a value
  std::int64_t value_dim;
  std::int64_t tokens;  // of this context rank
  bool causal;

  std::int64_t ranks() const { return strategy.cp; }
  std::int64_t keys() const {
    const int document = document_len(model);
    return std::min(document, model.sliding_window.value_or(document));
  }
  // Of a packed sequence a document has this share.
  double document() const {
    return static_cast<double>(document_len(model)) / static_cast<double>(model.seq_len);
  }
  std::int64_t in_document(std::int64_t tokens_of_rank) const {
    return std::max<std::int64_t>(1,
                                  std::llround(document() * static_cast<double>(tokens_of_rank)));
  }
  // Every context rank has the same work.
  bool even() const { return !causal || strategy.cp_balanced; }

  // Scores of one head over a whole sequence: the first w queries of a causal window see a
  // triangle in each document.
  double area() const {
    const double s = static_cast<double>(model.seq_len), w = static_cast<double>(keys());
    return causal ? s * w - w * w / (2.0 * document()) : s * w;
  }

  // Elements of q and of the output, and bytes of k and v, on this rank.
  double queries() const {
    return static_cast<double>(strategy.micro_batch * tokens * heads * query_dim);
  }
  double outputs() const {
    return static_cast<double>(strategy.micro_batch * tokens * heads * value_dim);
  }
  Bytes keys_and_values() const {
    return static_cast<double>(strategy.micro_batch * tokens * kv_heads * (query_dim + value_dim)) *
           size_of(dtype);
  }
};

Core core_of(const Transformer& model, const Strategy& strategy, const Framework& framework) {
  const DType dtype = activation_dtype(strategy.precision);
  const std::int64_t heads = model.num_heads / strategy.tp;
  return {.model = model,
          .strategy = strategy,
          .framework = framework,
          .dtype = dtype,
          .element = size_of(dtype).value(),
          .heads = heads,
          .kv_heads = model.mla ? heads : std::max(1, model.num_kv_heads / strategy.tp),
          .query_dim = query_head_dim(model),
          .value_dim = attention_output_width(model) / model.num_heads,
          .tokens = model.seq_len / strategy.cp,
          .causal = !model.encoder};
}

// `launches` kernels of m queries and n keys that together have `scores` useful scores for each
// head.
Operator flash(const Core& core, std::int64_t heads, std::int64_t m, std::int64_t n, int launches,
               double scores) {
  const double kv =
      std::max(1.0, static_cast<double>(core.kv_heads * heads) / static_cast<double>(core.heads));
  const std::int64_t micro_batch = core.strategy.micro_batch,
                     dims = core.query_dim + core.value_dim;
  Operator op{.kind = OperatorKind::Attention, .label = "attention", .dtype = core.dtype};
  op.batch = micro_batch * heads;
  op.m = m;
  op.n = n;
  op.k = core.value_dim;
  op.causal = core.causal && n == document_len(core.model);
  op.kernels = op.launches = launches;
  op.flops = 2.0 * static_cast<double>(op.batch) * scores * static_cast<double>(dims) * FLOP;
  const double io = static_cast<double>(micro_batch * dims) *
                    (static_cast<double>(heads * m) + kv * static_cast<double>(std::max(m, n)));
  op.moved = Bytes(io * core.element * launches);
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
  const double query = static_cast<double>(core.query_dim),
               value = static_cast<double>(core.value_dim);
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

Operator hop(const char* label, Bytes message, int launches, bool overlaps_attention) {
  Operator op = collective(label, CollectiveKind::SendRecv, GroupKind::Context, message);
  op.kernels *= launches;
  op.launches = launches;
  op.overlaps_attention = overlaps_attention;
  return op;
}

// Each partial result is added to an fp32 output; in the backward pass to the gradients of q, k and
// v.
void add_merge(LayerOperators& operators, const Core& core, double steps) {
  const double keys = core.keys_and_values().value() / core.element;
  operators.forward.push_back(memory_bound(OperatorKind::Residual, "context_merge", core.outputs(),
                                           steps * (core.element + 2.0 * kFp32Bytes),
                                           static_cast<int>(2 * steps)));
  operators.backward.push_back(memory_bound(OperatorKind::Residual, "context_merge_gradients",
                                            core.queries() + keys, steps * 3.0 * core.element,
                                            static_cast<int>(3 * steps)));
}

// Both passes start with a rank's own keys.
LayerOperators ring(const Core& core) {
  const std::int64_t tokens = core.tokens;
  const int steps = static_cast<int>(core.ranks() - 1);
  const double m = static_cast<double>(tokens),
               whole = core.area() / static_cast<double>(core.ranks());
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
  operators.forward.push_back(hop("context_keys", message, steps, true));
  operators.backward.push_back(hop("context_keys_gradients", 2.0 * message, steps, true));
  operators.backward.push_back(hop("context_last_gradients", message, 1, false));
  add_merge(operators, core, steps);
  return operators;
}

LayerOperators gathered_keys(const Core& core) {
  const double ranks = static_cast<double>(core.ranks());
  const auto over_context_ranks = [&](const char* label, CollectiveKind kind) {
    return collective(label, kind, GroupKind::Context, ranks * core.keys_and_values());
  };
  LayerOperators operators;
  operators.forward.push_back(over_context_ranks("context_keys", CollectiveKind::AllGather));
  operators.backward.push_back(over_context_ranks("context_keys_again", CollectiveKind::AllGather));
  add_kernel(operators, core,
             flash(core, core.heads, core.tokens, core.keys(), 1, core.area() / ranks),
             core.even() || core.model.sliding_window ? 1.0 : 2.0 - 1.0 / ranks);
  operators.backward.push_back(
      over_context_ranks("context_key_gradients", CollectiveKind::ReduceScatter));
  return operators;
}

// Fewer key/value heads than ranks are sent to several of them.
Bytes replicated_keys(const Core& core) {
  const double copies =
      std::max(1.0, static_cast<double>(core.ranks()) / static_cast<double>(core.kv_heads));
  return copies * core.keys_and_values();
}

LayerOperators exchanged_heads(const Core& core) {
  const Bytes q = core.queries() * size_of(core.dtype), out = core.outputs() * size_of(core.dtype),
              kv = replicated_keys(core);
  const auto exchange = [](OperatorList& pass, const char* label, Bytes message) {
    pass.push_back(collective(label, CollectiveKind::AllToAll, GroupKind::Context, message));
  };
  const auto exchange_inputs = [&](OperatorList& pass) {
    for (const char* label : {"context_keys", "context_values"}) exchange(pass, label, kv / 2.0);
    exchange(pass, "context_queries", q);
  };
  LayerOperators operators;
  exchange_inputs(operators.forward);
  exchange(operators.backward, "context_output", out);
  add_kernel(
      operators, core,
      flash(core, core.heads / core.ranks(), core.model.seq_len, core.keys(), 1, core.area()));
  exchange(operators.forward, "context_output", out);
  exchange_inputs(operators.backward);
  return operators;
}

LayerOperators across_ranks(const Core& core) {
  switch (context_scheme_of(core.model, core.strategy)) {
    case ContextScheme::Ring: return ring(core);
    case ContextScheme::AllGather: return gathered_keys(core);
    case ContextScheme::AllToAll: break;
  }
  return exchanged_heads(core);
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

// Keys, values and gradients of other ranks that are on the device at once, or partial results.
Bytes context_workspace(const LayerBuilder& b, const AttentionInputs& heads, TensorId output) {
  const double ranks = b.strategy.cp;
  const Bytes own = b.layer.size(heads.k) + b.layer.size(heads.v);
  switch (context_scheme_of(b.model, b.strategy)) {
    case ContextScheme::Ring: return 4.0 * own + (ranks - 1.0) * b.layer.size(output);
    case ContextScheme::AllGather: return 2.0 * ranks * own;
    case ContextScheme::AllToAll: break;
  }
  // Fewer key and value heads than ranks are sent to several of them.
  const double query_heads = b.model.num_heads / b.ranks,
               kv_heads = b.model.mla ? query_heads : std::max(1.0, b.model.num_kv_heads / b.ranks);
  return b.layer.size(heads.q) + std::max(1.0, ranks / kv_heads) * own;
}

BlockwiseKernel blockwise_kernel(const LayerBuilder& b, const AttentionInputs& heads,
                                 TensorId output) {
  const double s = static_cast<double>(b.model.seq_len);
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
void add_fused(LayerBuilder& b, const Core& core, const AttentionInputs& heads, TensorId output) {
  const TensorId sums = b.tensor("log-sum-exp", {b.tokens, b.model.num_heads / b.ranks, kFp32Bytes},
                                 TensorRole::Statistic);
  Node& node =
      b.layer.add(Module::CoreAttention, b.strategy.cp == 1 ? one_kernel(core) : across_ranks(core))
          .reads(heads.q)
          .reads(heads.k)
          .reads(heads.v)
          .writes(output)
          .writes(sums)
          .fused_attention();
  for (const TensorId saved : {heads.q, heads.k, heads.v, output, sums}) node.saves(saved);
  const AttentionKernel kernel = b.framework.attention_kernel;
  if (kernel == AttentionKernel::Blockwise || kernel == AttentionKernel::BlockwiseFp32) {
    const BlockwiseKernel::Peak peak = blockwise_kernel(b, heads, output).peak();
    node.forward_workspace(Bytes(peak.forward)).backward_workspace(Bytes(peak.backward));
  }
  if (b.strategy.cp > 1) node.backward_workspace(context_workspace(b, heads, output));
}

// The unfused core: a kernel for each step, on whole squares of scores.
class UnfusedCore {
 public:
  UnfusedCore(LayerBuilder& b, const Core& core)
      : b_(b),
        core_(core),
        batch_(core.strategy.micro_batch * core.heads),
        square_(static_cast<double>(batch_ * core.model.seq_len) *
                static_cast<double>(core.model.seq_len)),
        scores_{b.tokens, b.model.num_heads / b.ranks * static_cast<double>(b.model.seq_len),
                b.element} {}

  void add(const AttentionInputs& heads, TensorId output) {
    const TensorId raw = b_.tensor("attention scores", scores_);
    b_.layer.add(Module::CoreAttention, scores())
        .reads(heads.q)
        .reads(heads.k)
        .writes(raw)
        .saves(heads.q)
        .saves(heads.k);
    const TensorId weights = dropped_or_cast(softmax(raw));
    const TensorId by_heads = b_.tensor("attention by heads", b_.layer[output].shape);
    b_.layer.add(Module::CoreAttention, weighted_sum())
        .reads(weights)
        .reads(heads.v)
        .writes(by_heads)
        .saves(weights)
        .saves(heads.v);
    b_.layer
        .add(Module::CoreAttention,
             elementwise(OperatorKind::Copy, "attention_layout", core_.queries() + core_.outputs(),
                         layout_traffic(core_.framework, core_.element)))
        .reads(by_heads)
        .writes(output);
  }

 private:
  Operator gemm(const char* label, std::int64_t n, std::int64_t k) const {
    return sim::gemm(label, batch_, core_.model.seq_len, n, k,
                     high_precision_matmul_dtype(core_.strategy.precision), core_.dtype);
  }

  LayerOperators scores() const {
    const std::int64_t s = core_.model.seq_len, d = core_.query_dim;
    LayerOperators operators{.forward = {transposed(gemm("attention_scores", s, d))},
                             .backward = {gemm("attention_scores_dgrad_q", d, s),
                                          gemm("attention_scores_dgrad_k", d, s)},
                             .recompute = {}};
    if (core_.model.position != Position::Alibi) return operators;
    const Traffic bias = position_bias_traffic(core_.framework, core_.element);
    operators.forward.push_back(memory_bound(OperatorKind::Softmax, "position_bias", square_,
                                             bias.forward_bytes, bias.forward_kernels));
    return operators;
  }

  LayerOperators weighted_sum() const {
    const std::int64_t s = core_.model.seq_len, v = core_.value_dim;
    return {.forward = {gemm("attention_values", v, s)},
            .backward = {transposed(gemm("attention_values_dgrad", s, v)),
                         gemm("attention_values_wgrad", v, s)},
            .recompute = {}};
  }

  // Under autocast the softmax gives fp32, which is cast for the GEMM.
  TensorId softmax(TensorId raw) {
    const bool one_kernel =
        core_.framework.fusion != ElementwiseFusion::Fused ||
        (core_.element <= 2.0 && softmax_kernel_takes(batch_, core_.model.seq_len));
    const TensorId probabilities =
        b_.tensor("attention probabilities",
                  {scores_.rows, scores_.columns, b_.autocasts() ? kFp32Bytes : b_.element});
    Node& node = b_.layer
                     .add(Module::CoreAttention,
                          elementwise(OperatorKind::Softmax, "softmax", square_,
                                      softmax_traffic(core_.framework, core_.element, one_kernel)))
                     .reads(raw)
                     .writes(probabilities)
                     .saves(probabilities);
    if (!b_.eager()) node.gradient_in_place();
    return probabilities;
  }

  TensorId dropped_or_cast(TensorId probabilities) {
    if (b_.framework.dropout > 0.0) {
      const TensorId dropped = b_.tensor("attention probabilities after dropout", scores_),
                     mask = b_.tensor("attention dropout mask",
                                      {scores_.rows, scores_.columns, 1.0}, TensorRole::Statistic);
      b_.layer.add(Module::CoreAttention)
          .reads(probabilities)
          .writes(dropped)
          .writes(mask)
          .saves(mask)
          .gradient_in_place();
      return dropped;
    }
    if (!b_.autocasts()) return probabilities;
    const TensorId cast = b_.tensor("attention probabilities", scores_);
    b_.layer.add(Module::CoreAttention).reads(probabilities).writes(cast);
    return cast;
  }

  LayerBuilder& b_;
  const Core& core_;
  std::int64_t batch_;
  double square_;
  TensorShape scores_;
};

}  // namespace

TensorId add_attention_core(LayerBuilder& layer, const AttentionInputs& heads) {
  const Core core = core_of(layer.model, layer.strategy, layer.framework);
  const TensorId output = layer.values(
      "attention output", static_cast<double>(attention_output_width(layer.model)) / layer.ranks);
  if (layer.strategy.flash_attention)
    add_fused(layer, core, heads, output);
  else
    UnfusedCore(layer, core).add(heads, output);
  return output;
}

ContextScheme context_scheme_of(const Transformer& model, const Strategy& strategy) {
  const bool windowed = model.sliding_window && *model.sliding_window < model.seq_len;
  return windowed && strategy.cp_scheme == ContextScheme::Ring ? ContextScheme::AllGather
                                                               : strategy.cp_scheme;
}

}  // namespace llmsim::sim
