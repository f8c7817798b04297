#include "sim/memory/block_tape.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string_view>

#include "sim/base/dtype.h"
#include "sim/memory/experts_tape.h"
#include "sim/memory/mla_tape.h"
#include "sim/operators/block.h"

namespace llmsim::sim {
namespace {

const Operator& named(const OperatorList& list, std::string_view label) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Operator& op) { return label == op.label; });
  assert(found != list.end());
  return *found;
}

double product_of(std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

// Follows runtime/model/block.cpp statement by statement.
class BlockWalk {
 public:
  BlockWalk(const Transformer& model, const Strategy& strategy, const Framework& framework, const Recompute& recompute,
            LayerKind kind)
      : model_(model),
        strategy_(strategy),
        recompute_(recompute),
        operators_(lower_block(model, strategy, framework, RecomputeKind::None, kind).forward),
        e_(size_of(activation_dtype(strategy.precision)).value()),
        gradient_(framework.storage.gradient_bytes),
        gathers_(strategy.sequence_parallel && strategy.tp > 1),
        tokens_(static_cast<double>(named(operators_, model.mla ? "query_up" : "qkv").m)),
        rows_(gathers_ ? tokens_ / strategy.tp : tokens_),
        norm_{.kind = model.norm,
              .rows = rows_,
              .width = static_cast<double>(model.hidden_size),
              .element = e_,
              .gradient_element = gradient_,
              .weight = model.norm_weight,
              .bias = model.norm_weight && model.bias.norm} {
    if (model.mla) mla_.emplace(model, strategy, framework);
    if (kind == LayerKind::Moe) experts_.emplace(model, strategy, framework, residual());
  }

  PassMemory forward() {
    Ledger ledger;
    const bool keeps = recompute_.kind != RecomputeKind::Full;
    attention_half(ledger, keeps);
    mlp_half(ledger, keeps, true);
    if (recompute_.kind == RecomputeKind::Selective) ledger.give(dropped());
    if (!keeps) ledger.give(residual());  // of the half way, which the output has replaced
    return ledger.total();
  }

  PassMemory backward() {
    Ledger ledger;
    if (recompute_.kind == RecomputeKind::Full) {
      attention_half(ledger, true);
      mlp_half(ledger, true, false);
    }
    restore_mlp(ledger);
    mlp_backward(ledger);
    ledger.give(residual());  // dy, added
    restore_attention(ledger);
    attention_backward(ledger);
    ledger.give(residual());  // dr, added
    return ledger.total();
  }

 private:
  // Sizes.
  Bytes of_gemm_output(const char* label) const { return gemm_output(named(operators_, label)); }
  Bytes of_gemm_input(const char* label) const {
    const Operator& op = named(operators_, label);
    return Bytes(product_of(op.m, op.k) * e_);
  }
  Bytes gemm_output(const Operator& op) const { return Bytes(product_of(op.m, op.n) * e_); }
  Bytes residual() const { return norm_.output(); }
  Bytes whole_residual() const { return Bytes(tokens_ * model_.hidden_size * e_); }
  Bytes heads() const { return mla_ ? mla_->heads() : of_gemm_output("qkv"); }
  Bytes queries() const { return mla_ ? mla_->queries() : core_output(); }
  Bytes keys() const { return mla_ ? queries() : values(); }
  Bytes values() const { return mla_ ? mla_->values() : (heads() - core_output()) / 2.0; }
  Bytes core_output() const { return of_gemm_input("attention_output"); }
  Bytes up() const { return of_gemm_output("mlp_up"); }
  Bytes inner() const { return of_gemm_input("mlp_down"); }
  Bytes silu() const { return model_.gated_mlp ? inner() : Bytes(0.0); }
  Bytes scores() const {
    const Operator& op = named(operators_, "attention_scores");
    return static_cast<double>(op.batch) * gemm_output(op);
  }
  Bytes log_sum_exp() const {
    const Operator& op = named(operators_, "attention");
    return Bytes(product_of(op.batch, op.m) * kFp32Bytes);
  }
  Bytes kept_of_scores() const { return strategy_.flash_attention ? log_sum_exp() : scores(); }

  // Forward.
  void attention_half(Ledger& ledger, bool keeps) {
    norm_.forward(ledger);
    mla_ ? mla_heads(ledger, keeps) : plain_heads(ledger, keeps);
    attend(ledger);
    if (!keeps) ledger.give(heads() + kept_of_scores());
    row(ledger, residual());
    if (!keeps) ledger.give(core_output());
  }

  void plain_heads(Ledger& ledger, bool keeps) {
    column(ledger, heads());
    if (!keeps) ledger.give(norm_.output() + norm_.statistics());
    ledger.take(heads());  // by heads
    ledger.give(heads());
  }

  void mla_heads(Ledger& ledger, bool keeps) {
    mla_->down(ledger);
    mla_->up(ledger);
    if (!keeps) ledger.give(norm_.output() + norm_.statistics() + mla_->kept());
  }

  // Ends holding the output and what its backward pass needs.
  void attend(Ledger& ledger) {
    if (strategy_.flash_attention) {
      blockwise(ledger);
      return;
    }
    ledger.take(scores());
    ledger.take(scores());  // probabilities
    ledger.give(scores());
    ledger.take(core_output());  // by heads
    ledger.take(core_output());
    ledger.give(core_output());
  }

  void mlp_half(Ledger& ledger, bool keeps, bool to_the_end) {
    norm_.forward(ledger);
    if (experts_) {
      experts_->inner(ledger, keeps);
      if (!keeps) ledger.give(norm_.output() + norm_.statistics());
      if (to_the_end) experts_->outer(ledger, keeps);
      return;
    }
    mlp_inner(ledger);
    if (!to_the_end) return;
    if (!keeps) ledger.give(norm_.output() + norm_.statistics() + up() + silu());
    row(ledger, residual());
    if (!keeps) ledger.give(inner());
  }

  void mlp_inner(Ledger& ledger) {
    column(ledger, up());
    activate(ledger);
  }
  void activate(Ledger& ledger) {
    ledger.take(silu());
    ledger.take(inner());
  }

  void column(Ledger& ledger, Bytes output) {
    if (gathers_) ledger.take(whole_residual());
    ledger.take(output);
    if (gathers_) ledger.give(whole_residual());
  }

  void row(Ledger& ledger, Bytes output) {
    if (!gathers_) {
      ledger.take(output);
      return;
    }
    ledger.take(whole_residual());
    ledger.take(output);
    ledger.give(whole_residual());
  }

  // What selective recomputation drops after the forward pass, and brings back.
  Bytes dropped() const {
    const RecomputedModules& modules = recompute_.modules;
    Bytes size;
    if (modules.core_attention) size += kept_of_scores();
    if (modules.norms) size += 2.0 * norm_.output();
    if (modules.mla_up && mla_) size += heads();
    if (experts_) return size + experts_->dropped(modules);
    if (modules.mlp) size += up();
    if (modules.mlp || modules.activation) size += inner() + silu();
    return size;
  }

  bool selects() const { return recompute_.kind == RecomputeKind::Selective; }

  void restore_norm(Ledger& ledger) {
    norm_.forward(ledger);
    ledger.give(norm_.statistics());  // the first ones
  }

  void restore_mlp(Ledger& ledger) {
    if (!selects()) return;
    const RecomputedModules& modules = recompute_.modules;
    if (modules.norms) restore_norm(ledger);
    if (experts_) return experts_->restore(ledger, modules);
    if (modules.mlp) mlp_inner(ledger);
    if (modules.activation && !modules.mlp) activate(ledger);
  }

  void restore_attention(Ledger& ledger) {
    if (!selects()) return;
    if (recompute_.modules.norms) restore_norm(ledger);
    if (recompute_.modules.mla_up && mla_) mla_->up(ledger);
    if (!recompute_.modules.core_attention) return;
    attend(ledger);
    ledger.give(core_output());  // the first one
  }

  // Backward.
  void mlp_backward(Ledger& ledger) {
    if (experts_) {
      experts_->backward(ledger);
      return norm_backward(ledger);
    }
    row_backward(ledger, inner(), model_.bias.mlp);
    ledger.give(inner());  // the input of the GEMM
    ledger.take(model_.gated_mlp ? up() : inner());
    ledger.give(inner() + up() + silu());
    column_backward(ledger, up(), model_.bias.mlp);
    norm_backward(ledger);
  }

  void attention_backward(Ledger& ledger) {
    row_backward(ledger, core_output(), model_.bias.attention_output);
    if (strategy_.flash_attention) {
      blockwise_backward(ledger);
    } else {
      ledger.give(core_output());
      unfused_backward(ledger);
    }
    mla_ ? mla_->backward(ledger) : plain_heads_backward(ledger);
    norm_backward(ledger);
  }

  void plain_heads_backward(Ledger& ledger) {
    ledger.take(heads());
    ledger.give(heads());
    column_backward(ledger, heads(), model_.bias.qkv);
  }

  // From the gradient of the output to those of q, k and v, which replace them.
  void unfused_backward(Ledger& ledger) {
    ledger.take(core_output());  // by heads
    ledger.give(core_output());
    ledger.take(values());
    ledger.take(scores());
    ledger.give(core_output() + values());
    ledger.take(scores());
    ledger.give(2.0 * scores());
    ledger.take(queries());
    ledger.take(keys());
    ledger.give(scores() + queries() + keys());
  }

  // The input of the GEMM stays: the caller frees it.
  void row_backward(Ledger& ledger, Bytes input, bool bias) {
    if (gathers_) ledger.take(whole_residual());
    ledger.take(input);
    if (gradient_ > e_) fp32_weight_gradient(ledger, static_cast<double>(model_.hidden_size) * (input / Bytes(tokens_ * e_)));
    if (bias) sum_over_tokens(ledger, model_.hidden_size);
    if (gathers_) ledger.give(whole_residual());
  }

  // Replaces the gradient of the output, and the input, by the gradient of the input.
  void column_backward(Ledger& ledger, Bytes output, bool bias) {
    const double width = output / Bytes(tokens_ * e_);
    ledger.take(whole_residual());
    if (gathers_) ledger.take(whole_residual());
    if (gradient_ > e_) fp32_weight_gradient(ledger, width * model_.hidden_size);
    if (bias) sum_over_tokens(ledger, width);
    if (gathers_) ledger.give(whole_residual());
    ledger.give(output + residual());
    if (!gathers_) return;
    ledger.take(residual());
    ledger.give(whole_residual());
  }

  // The GEMM in the activations' format, and its cast.
  void fp32_weight_gradient(Ledger& ledger, double elements) { ledger.pass(Bytes(elements * (e_ + gradient_))); }
  void sum_over_tokens(Ledger& ledger, double width) { ledger.pass(Bytes(width * (e_ + (gradient_ > e_ ? gradient_ : 0.0)))); }

  // The input, the statistics and the gradient of the output are freed.
  void norm_backward(Ledger& ledger) {
    norm_.backward(ledger);
    ledger.give(norm_.output() + norm_.statistics() + residual());
  }

  // Elements of one block of queries, in all heads: their log-sum-exps, scores, rows of q and of the output, and of the keys and
  // values that they see.
  struct QueryBlock {
    double rows, scores, queries, outputs, keys, values;
  };

  template <typename Visit>
  void for_each_query_block(const Visit& visit) const {
    const Operator& op = named(operators_, "attention");
    const double sequence = static_cast<double>(op.m);
    for (std::int64_t begin = 0; begin < op.m; begin += kAttentionBlock) {
      const auto size = static_cast<double>(std::min<std::int64_t>(kAttentionBlock, op.m - begin));
      const double seen = static_cast<double>(begin) + size, rows = static_cast<double>(op.batch) * size;
      visit(QueryBlock{.rows = rows,
                       .scores = rows * seen,
                       .queries = queries().value() / e_ * size / sequence,
                       .outputs = core_output().value() / e_ * size / sequence,
                       .keys = keys().value() / e_ * seen / sequence,
                       .values = values().value() / e_ * seen / sequence});
    }
  }

  void blockwise(Ledger& ledger) {
    ledger.take(core_output());
    ledger.take(log_sum_exp());
    for_each_query_block([&](const QueryBlock& block) {
      block_scores(ledger, block);
      ledger.take(Bytes(2.0 * block.rows * kFp32Bytes));
      ledger.pass(Bytes((e_ < kFp32Bytes ? block.scores * e_ : 0.0) + block.outputs * e_));
      ledger.give(Bytes(block.scores * kFp32Bytes + 2.0 * block.rows * kFp32Bytes));
    });
  }

  // Ends holding fp32 scores.
  void block_scores(Ledger& ledger, const QueryBlock& block) {
    ledger.pass(Bytes((block.queries + block.scores) * e_));
    ledger.take(Bytes(block.scores * kFp32Bytes));
    if (e_ < kFp32Bytes) ledger.pass(Bytes(block.scores * e_));
  }

  // From the gradient of the output to those of q, k and v, which replace them.
  void blockwise_backward(Ledger& ledger) {
    ledger.take(heads());
    for_each_query_block([&](const QueryBlock& block) {
      const Bytes q(block.queries * e_), o(block.outputs * e_), p(block.scores * e_), sums(block.rows * e_);
      const Bytes lse(block.rows * kFp32Bytes);
      ledger.take(q + o + lse);
      block_scores(ledger, block);
      if (e_ < kFp32Bytes) ledger.pass(p);
      ledger.give(Bytes(block.scores * (kFp32Bytes - e_)));
      ledger.pass(Bytes(block.values * e_));
      ledger.pass(2.0 * o + sums);
      ledger.take(sums + p);
      ledger.pass(std::max(q, Bytes(block.keys * e_)));
      ledger.give(sums + 2.0 * p + q + o + lse);
    });
    ledger.give(heads() + 2.0 * core_output() + log_sum_exp());
  }

  const Transformer& model_;
  const Strategy& strategy_;
  Recompute recompute_;
  OperatorList operators_;
  double e_;
  double gradient_;
  bool gathers_;
  double tokens_;
  double rows_;
  NormTape norm_;
  std::optional<MlaTape> mla_;
  std::optional<ExpertsTape> experts_;
};

}  // namespace

Bytes NormTape::statistics() const { return kind == Norm::LayerNorm ? Bytes(2.0 * rows * element) : Bytes(rows * kFp32Bytes); }

void NormTape::forward(Ledger& ledger) const {
  if (kind == Norm::LayerNorm) {
    ledger.take(output() + statistics());
    return;
  }
  const Bytes wide(rows * width * kFp32Bytes);
  ledger.take(wide + statistics());
  if (element == kFp32Bytes) return;
  if (weight) ledger.pass(Bytes(width * kFp32Bytes));
  ledger.take(output());
  ledger.give(wide);
}

void NormTape::backward(Ledger& ledger) const {
  if (kind == Norm::LayerNorm) {
    const double parameters = (weight ? width : 0.0) + (bias ? width : 0.0);
    ledger.take(output());
    ledger.pass(Bytes((parameters + (weight ? 2.0 * width : 0.0)) * element));
    return;
  }
  const Bytes wide(rows * width * kFp32Bytes), mean(rows * kFp32Bytes);
  const Bytes scale(weight && element < kFp32Bytes ? width * kFp32Bytes : 0.0);
  ledger.take(2.0 * wide);
  if (weight) ledger.pass(Bytes(width * kFp32Bytes + (gradient_element < kFp32Bytes ? width * gradient_element : 0.0)));
  ledger.pass(scale + mean);
  ledger.give(wide);
  if (element == kFp32Bytes) return;
  ledger.pass(scale + mean + output());
  ledger.give(wide);
  ledger.take(output());
}

BlockTape block_tape(const Transformer& model, const Strategy& strategy, const Framework& framework, const Recompute& recompute,
                     LayerKind kind) {
  BlockWalk walk(model, strategy, framework, recompute, kind);
  return {.forward = walk.forward(), .backward = walk.backward()};
}

}  // namespace llmsim::sim
