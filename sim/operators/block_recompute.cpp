#include "sim/operators/block_recompute.h"

#include <algorithm>
#include <iterator>

#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

class BlockRecompute {
 public:
  BlockRecompute(BlockOperators& block, const BlockParts& parts, const Transformer& model, const Strategy& strategy,
                 const Framework& framework)
      : block_(block),
        parts_(parts),
        model_(model),
        strategy_(strategy),
        framework_(framework),
        element_(size_of(activation_dtype(strategy.precision)).value()),
        input_(stage_output(model, strategy)) {}

  void apply(RecomputeKind recompute) {
    const Bytes everything = total_saved(block_.forward);
    block_.saved = everything;
    switch (recompute) {
      case RecomputeKind::None: break;
      case RecomputeKind::Selective: recompute_modules(strategy_.recompute.modules); break;
      case RecomputeKind::Full:
      case RecomputeKind::EveryN: recompute_all(); break;
      case RecomputeKind::Op: recompute_operators(strategy_.recompute.saved); break;
    }
    block_.restored = everything - block_.saved;
  }

 private:
  void recompute_modules(const RecomputedModules& modules) {
    if (modules.core_attention) {
      again(parts_.core);
      block_.saved -= strategy_.flash_attention ? Bytes(0.0) : parts_.inputs.core_inner;
    }
    if (modules.mla_up) {
      again(parts_.mla_up);
      block_.saved -= parts_.mla_saved;
    }
    if (modules.norms) {
      for (std::size_t i = 0; i < block_.forward.size(); ++i) {
        if (block_.forward[i].kind == OperatorKind::Norm) again({i, i + 1});
      }
      block_.saved -= parts_.norms_saved;
    }
    if (modules.second_half(parts_.moe)) {
      again({parts_.mlp.first, std::min(parts_.mlp.last, last_needed())});
      block_.saved -= parts_.mlp_inner_saved + total_saved(parts_.activations);
    } else {
      if (modules.shared_experts) recompute_shared_experts();
      recompute_activations(modules);
    }
  }

  // Without them in the model nothing.
  void recompute_shared_experts() {
    if (parts_.shared_up.first == parts_.shared_up.last) return;
    again(parts_.gathered);
    again(parts_.shared_up);
    again({parts_.shared_down.first, std::max(parts_.shared_down.first, std::min(parts_.shared_down.last, last_needed()))});
    block_.saved -= parts_.shared_saved;
  }

  void recompute_activations(const RecomputedModules& modules) {
    for (const BlockActivation& activation : parts_.activations) {
      if (!modules.activation && !(modules.expert_activation && activation.of_experts)) continue;
      if (modules.shared_experts && parts_.moe && !activation.of_experts) continue;  // made again with the rest of them
      again({activation.place, activation.place + 1});
      block_.saved -= activation.saved;
    }
  }

  void recompute_all() {
    again({0, last_needed()});
    block_.saved = input_;
  }

  // Nothing of what follows is needed again, unless a norm or a dropout mask there is.
  std::size_t last_needed() const {
    const bool needed = framework_.dropout > 0.0 || model_.norms_per_layer >= 4;
    return framework_.recompute_stops_early && !needed ? parts_.needed : block_.forward.size();
  }

  // Weights that are cast for the backward pass anyway are not cast again for the replay.
  void again(OperatorRange range) {
    const auto begin = block_.forward.begin();
    std::copy_if(begin + static_cast<std::ptrdiff_t>(range.first), begin + static_cast<std::ptrdiff_t>(range.last),
                 std::back_inserter(block_.recompute),
                 [&](const Operator& op) { return !(framework_.casts_weights_in_backward && op.kind == OperatorKind::Cast); });
  }

  void recompute_operators(SavedGemms kept) {
    block_.saved = input_;
    keep_attention(kept == SavedGemms::EverySecond && strategy_.flash_attention);
    int count = 0;
    for (const BlockGemm& gemm : parts_.gemms) keep_parts(gemm, kept, count);
    for (std::size_t i = 0; i < last_needed(); ++i) {
      const Operator& op = block_.forward[i];
      const bool core = parts_.core.first <= i && i < parts_.core.last;
      if (!core && op.kind != OperatorKind::Gemm && op.kind != OperatorKind::Collective) block_.recompute.push_back(op);
      if (!core && op.collective == CollectiveKind::ReduceScatter && op.kind == OperatorKind::Collective)
        block_.saved += kept == SavedGemms::EverySecond ? input_ : Bytes(0.0);
    }
  }

  // Its output and log-sum-exp are kept, or the kernel runs again.
  void keep_attention(bool kept) {
    if (!kept) return again(parts_.core);
    for (std::size_t i = parts_.core.first; i < parts_.core.last; ++i) {
      const Operator& op = block_.forward[i];
      if (op.kind != OperatorKind::Attention || op.saved <= Bytes(0.0)) continue;
      block_.saved += static_cast<double>(op.batch * op.m) * (size_of(DType::Fp32) + static_cast<double>(op.k) * Bytes(element_));
    }
  }

  // A compiler that sees the whole step keeps the output of a row-parallel GEMM as reduced over the tensor ranks, and not that
  // of the last one, which nothing needs.  A policy that sees one operator at a time keeps what the operator returns.
  Bytes kept_output(const BlockGemm& one, SavedGemms kept, std::int64_t part) const {
    const Operator& op = block_.forward[one.gemm];
    const Bytes whole(static_cast<double>(op.batch * op.m * part) * element_);
    if (kept == SavedGemms::EverySecond || !one.row_parallel) return whole;
    return &one == &parts_.gemms.back() ? Bytes(0.0) : input_;
  }

  // Keeps the outputs of some parts of a GEMM (q of q, k, v) and makes the others again.  `count` runs over the block's parts.
  void keep_parts(const BlockGemm& one, SavedGemms kept, int& count) {
    const Operator& whole = block_.forward[one.gemm];
    const bool wide = size_of(whole.dtype) >= size_of(DType::Bf16);
    std::int64_t made_again = 0;
    for (const std::int64_t part : one.parts) {
      if (part == 0) continue;
      ++count;
      const bool keeps = kept == SavedGemms::All || (kept == SavedGemms::Qkv && &one == &parts_.gemms.front()) ||
                         (kept == SavedGemms::EverySecond && wide && count % 2 == 1);
      if (keeps)
        block_.saved += kept_output(one, kept, part);
      else
        made_again += part;
    }
    if (made_again == 0 || one.gemm >= last_needed()) return;
    block_.recompute.push_back(
        gemm(whole.label, whole.batch, whole.m, made_again, whole.k, whole.dtype, activation_dtype(strategy_.precision)));
  }

  BlockOperators& block_;
  const BlockParts& parts_;
  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  double element_;
  Bytes input_;  // of the block: the residual stream
};

}  // namespace

Bytes total_saved(const std::vector<BlockActivation>& activations) {
  Bytes sum;
  for (const BlockActivation& activation : activations) sum += activation.saved;
  return sum;
}

void recompute_block(BlockOperators& block, const BlockParts& parts, const Transformer& model, const Strategy& strategy,
                     const Framework& framework, RecomputeKind recompute) {
  BlockRecompute(block, parts, model, strategy, framework).apply(recompute);
}

}  // namespace llmsim::sim
