#include "sim/operators/attention_core.h"

#include <algorithm>

#include "sim/base/dtype.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

class CoreLowering {
 public:
  CoreLowering(const Transformer& model, const Strategy& strategy, const Framework& framework)
      : model_(model),
        strategy_(strategy),
        framework_(framework),
        dtype_(activation_dtype(strategy.precision)),
        element_(size_of(dtype_).value()),
        ranks_(strategy.cp),
        heads_(model.num_heads / strategy.tp),
        kv_heads_(model.mla ? heads_ : std::max(1, model.num_kv_heads / strategy.tp)),
        query_dim_(query_head_dim(model)),
        value_dim_(attention_output_width(model) / model.num_heads),
        tokens_(model.seq_len / ranks_),
        causal_(!model.encoder) {}

  LayerOperators lower() {
    if (!strategy_.flash_attention) {
      unfused();
    } else if (ranks_ == 1) {
      add_kernel(flash(heads_, model_.seq_len, keys(), 1, area(model_.seq_len)));
    } else {
      across_ranks();
    }
    return std::move(core_);
  }

 private:
  void across_ranks() {
    switch (context_scheme_of(model_, strategy_)) {
      case ContextScheme::Ring: ring(); break;
      case ContextScheme::AllGather: gather(); break;
      case ContextScheme::AllToAll: exchange_heads(); break;
    }
  }

  void ring() {
    const std::int64_t steps = ranks_ - 1;
    const double m = static_cast<double>(tokens_),
                 whole = area(model_.seq_len) / static_cast<double>(ranks_);
    const double diagonal = causal_ ? m * m / 2.0 : m * m;
    const bool halves = causal_ && strategy_.cp_balanced;
    Operator own = flash(heads_, tokens_, tokens_, 1, diagonal);
    own.causal = causal_;
    add_kernel(own);
    Operator others =
        flash(heads_, tokens_, halves ? std::max<std::int64_t>(1, tokens_ / 2) : tokens_,
              static_cast<int>(steps), whole - diagonal);
    others.causal = false;
    add_kernel(others, even() ? 1.0 : 2.0);
    const Bytes message = keys_and_values();
    core_.forward.push_back(hop("context_keys", message, static_cast<int>(steps), true));
    core_.backward.push_back(
        hop("context_keys_gradients", 2.0 * message, static_cast<int>(steps), true));
    core_.backward.push_back(hop("context_last_gradients", message, 1, false));
    merge(static_cast<double>(steps));
  }

  // Each partial result is added to an fp32 output; in the backward pass to the gradients of q, k
  // and v.
  void merge(double steps) {
    const double keys = keys_and_values().value() / element_;
    core_.forward.push_back(memory_bound(OperatorKind::Residual, "context_merge", outputs(),
                                         steps * (element_ + 2.0 * kFp32Bytes),
                                         static_cast<int>(2 * steps)));
    core_.backward.push_back(memory_bound(OperatorKind::Residual, "context_merge_gradients",
                                          queries() + keys, steps * 3.0 * element_,
                                          static_cast<int>(3 * steps)));
  }

  void gather() {
    const Bytes whole = static_cast<double>(ranks_) * keys_and_values();
    core_.forward.push_back(
        collective("context_keys", CollectiveKind::AllGather, GroupKind::Context, whole));
    core_.backward.push_back(
        collective("context_keys_again", CollectiveKind::AllGather, GroupKind::Context, whole));
    Operator op =
        flash(heads_, tokens_, keys(), 1, area(model_.seq_len) / static_cast<double>(ranks_));
    add_kernel(op, even() || model_.sliding_window ? 1.0 : 2.0 - 1.0 / static_cast<double>(ranks_));
    core_.backward.push_back(collective("context_key_gradients", CollectiveKind::ReduceScatter,
                                        GroupKind::Context, whole));
  }

  void exchange_heads() {
    const Bytes q = queries() * size_of(dtype_), out = outputs() * size_of(dtype_),
                kv = replicated_keys();
    const auto exchange = [](OperatorList& pass, const char* label, Bytes message) {
      pass.push_back(collective(label, CollectiveKind::AllToAll, GroupKind::Context, message));
    };
    const auto exchange_inputs = [&](OperatorList& pass) {
      for (const char* label : {"context_keys", "context_values"}) exchange(pass, label, kv / 2.0);
      exchange(pass, "context_queries", q);
    };
    exchange_inputs(core_.forward);
    exchange(core_.backward, "context_output", out);
    add_kernel(flash(heads_ / ranks_, model_.seq_len, keys(), 1, area(model_.seq_len)));
    exchange(core_.forward, "context_output", out);
    exchange_inputs(core_.backward);
  }

  // Fewer key/value heads than ranks are sent to several of them.
  Bytes replicated_keys() const {
    const double copies =
        std::max(1.0, static_cast<double>(ranks_) / static_cast<double>(kv_heads_));
    return copies * keys_and_values();
  }

  Operator hop(const char* label, Bytes message, int launches, bool overlaps_attention) const {
    Operator op = collective(label, CollectiveKind::SendRecv, GroupKind::Context, message);
    op.kernels *= launches;
    op.launches = launches;
    op.overlaps_attention = overlaps_attention;
    return op;
  }

  // `launches` kernels of m queries and n keys that together have `scores` useful scores for each
  // head.
  Operator flash(std::int64_t heads, std::int64_t m, std::int64_t n, int launches,
                 double scores) const {
    const double kv =
        std::max(1.0, static_cast<double>(kv_heads_ * heads) / static_cast<double>(heads_));
    Operator op{.kind = OperatorKind::Attention, .label = "attention", .dtype = dtype_};
    op.batch = strategy_.micro_batch * heads;
    op.m = m;
    op.n = n;
    op.k = value_dim_;
    op.causal = causal_ && n == model_.seq_len;
    op.kernels = op.launches = launches;
    op.flops = 2.0 * static_cast<double>(op.batch) * scores *
               static_cast<double>(query_dim_ + value_dim_) * FLOP;
    const double io = static_cast<double>(strategy_.micro_batch * (query_dim_ + value_dim_)) *
                      (static_cast<double>(heads * m) + kv * static_cast<double>(std::max(m, n)));
    op.moved = Bytes(io * element_ * launches);
    return op;
  }

  // Forward, and backward with four GEMMs instead of two; the scores that the kernel recomputes,
  // over the size of queries, are no model work.  Every rank waits for one that has `imbalance` of
  // the mean work.
  void add_kernel(Operator op, double imbalance = 1.0) {
    op.repeats = imbalance;
    core_.forward.push_back(op);
    op.label = "attention_backward";
    op.flops = 2.0 * op.flops;
    const double query = static_cast<double>(query_dim_), value = static_cast<double>(value_dim_);
    op.repeats = (3.0 * query + 2.0 * value) / (2.0 * (query + value)) * imbalance;
    op.moved = 2.0 * op.moved;
    op.kernels = 2 * op.launches;
    core_.backward.push_back(op);
  }

  void unfused() {
    const std::int64_t s = model_.seq_len, d = query_dim_, v = value_dim_,
                       batch = strategy_.micro_batch * heads_;
    const double scores = static_cast<double>(batch * s) * static_cast<double>(s);
    const DType dtype = high_precision_matmul_dtype(strategy_.precision);
    LayerOperators scores_of, values_of;
    scores_of.forward.push_back(
        transposed(gemm("attention_scores", batch, s, s, d, dtype, dtype_)));
    if (model_.position == Position::Alibi) {
      const Traffic bias = position_bias_traffic(framework_, element_);
      scores_of.forward.push_back(memory_bound(OperatorKind::Softmax, "position_bias", scores,
                                               bias.forward_bytes, bias.forward_kernels));
    }
    const bool one_kernel = framework_.fusion != ElementwiseFusion::Fused ||
                            (element_ <= 2.0 && softmax_kernel_takes(batch, s));
    scores_of.backward.push_back(gemm("attention_scores_dgrad_q", batch, s, d, s, dtype, dtype_));
    scores_of.backward.push_back(gemm("attention_scores_dgrad_k", batch, s, d, s, dtype, dtype_));
    values_of.forward.push_back(gemm("attention_values", batch, s, v, s, dtype, dtype_));
    values_of.backward.push_back(
        transposed(gemm("attention_values_dgrad", batch, s, s, v, dtype, dtype_)));
    values_of.backward.push_back(gemm("attention_values_wgrad", batch, s, v, s, dtype, dtype_));
    LayerBuilder core;
    core.add(scores_of);
    core.add(OperatorKind::Softmax, Module::CoreAttention, "softmax", scores,
             softmax_traffic(framework_, element_, one_kernel));
    core.add(values_of);
    core.add(OperatorKind::Copy, Module::CoreAttention, "attention_layout", queries() + outputs(),
             layout_traffic(framework_, element_));
    core_ = std::move(core).build();
  }

  std::int64_t keys() const {
    return std::min(model_.seq_len, model_.sliding_window.value_or(model_.seq_len));
  }

  // Every context rank has the same work.
  bool even() const { return !causal_ || strategy_.cp_balanced; }

  // Scores of one head over a whole sequence: the first w queries of a causal window see a
  // triangle.
  double area(std::int64_t sequence) const {
    const double s = static_cast<double>(sequence), w = static_cast<double>(keys());
    return causal_ ? s * w - w * w / 2.0 : s * w;
  }

  // Elements of q and of the output, and bytes of k and v, on this rank.
  double queries() const {
    return static_cast<double>(strategy_.micro_batch * tokens_ * heads_ * query_dim_);
  }
  double outputs() const {
    return static_cast<double>(strategy_.micro_batch * tokens_ * heads_ * value_dim_);
  }
  Bytes keys_and_values() const {
    return static_cast<double>(strategy_.micro_batch * tokens_ * kv_heads_ *
                               (query_dim_ + value_dim_)) *
           size_of(dtype_);
  }

  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  DType dtype_;
  double element_;
  std::int64_t ranks_;
  std::int64_t heads_;
  std::int64_t kv_heads_;
  std::int64_t query_dim_;  // of a query or key vector, and of a value
  std::int64_t value_dim_;
  std::int64_t tokens_;
  bool causal_;
  LayerOperators core_;  // each pass in the order in which it runs
};

}  // namespace

LayerOperators lower_attention_core(const Transformer& model, const Strategy& strategy,
                                    const Framework& framework) {
  return CoreLowering(model, strategy, framework).lower();
}

ContextScheme context_scheme_of(const Transformer& model, const Strategy& strategy) {
  const bool windowed = model.sliding_window && *model.sliding_window < model.seq_len;
  return windowed && strategy.cp_scheme == ContextScheme::Ring ? ContextScheme::AllGather
                                                               : strategy.cp_scheme;
}

}  // namespace llmsim::sim
