#include "sim/operators/dataflow.h"

#include <algorithm>

#include "sim/base/dtype.h"
#include "sim/model/parameters.h"
#include "sim/operators/attention_core.h"
#include "sim/operators/dataflow/layer.h"
#include "sim/strategy/adapters.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

// Queries, keys and values of all heads on this rank.
struct AttentionInputs {
  Tensor q, k, v;
};

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

// The core of attention: scores, softmax and weighted sum; its operators are attention_core.h's.
class CoreDataflow {
 public:
  CoreDataflow(LayerDataflow& layer, const AttentionInputs& heads)
      : layer_(layer),
        heads_(heads),
        model_(layer.model()),
        strategy_(layer.strategy()),
        width_(static_cast<double>(attention_output_width(model_)) / layer.ranks) {}

  Tensor output() {
    const Tensor output = layer_.add(layer_.tokens * width_ * layer_.element);
    strategy_.flash_attention ? fused(output) : unfused(output);
    return output;
  }

 private:
  double heads() const { return model_.num_heads / layer_.ranks; }

  // Its log-sum-exps are saved beside all that goes in and comes out.
  void fused(Tensor output) {
    const Tensor sums = layer_.add(layer_.tokens * heads() * kFp32Bytes, Role::Statistic);
    Dataflow::Step& step = inputs(layer_.flow.step(Module::CoreAttention))
                               .writes(output)
                               .writes(sums)
                               .fused_attention();
    for (const Tensor saved : {heads_.q, heads_.k, heads_.v, output, sums}) step.saves(saved);
    const AttentionKernel kernel = layer_.framework().attention_kernel;
    if (kernel == AttentionKernel::Blockwise || kernel == AttentionKernel::BlockwiseFp32) {
      const BlockwiseKernel::Peak peak = blockwise().peak();
      step.forward_workspace(Bytes(peak.forward)).backward_workspace(Bytes(peak.backward));
    }
    if (strategy_.cp > 1) step.backward_workspace(context_workspace(output));
  }

  // Keys, values and gradients of other ranks that are on the device at once, or partial results.
  Bytes context_workspace(Tensor output) const {
    const double ranks = strategy_.cp;
    const Bytes own = layer_.size(heads_.k) + layer_.size(heads_.v);
    switch (context_scheme_of(model_, strategy_)) {
      case ContextScheme::Ring: return 4.0 * own + (ranks - 1.0) * layer_.size(output);
      case ContextScheme::AllGather: return 2.0 * ranks * own;
      case ContextScheme::AllToAll: break;
    }
    // Fewer key and value heads than ranks are sent to several of them.
    const double kv_heads =
        model_.mla ? heads() : std::max(1.0, model_.num_kv_heads / layer_.ranks);
    return layer_.size(heads_.q) + std::max(1.0, ranks / kv_heads) * own;
  }

  Dataflow::Step& inputs(Dataflow::Step& step) const {
    return step.reads(heads_.q).reads(heads_.k).reads(heads_.v);
  }

  BlockwiseKernel blockwise() const {
    const double sequences = strategy_.micro_batch, s = static_cast<double>(model_.seq_len),
                 e = layer_.element;
    const auto width = [&](Tensor tensor) { return layer_.size(tensor).value() / e / s; };
    return {.batch = sequences * heads(),
            .sequence = s,
            .element = e,
            .query_width = width(heads_.q),
            .key_width = width(heads_.k),
            .output_width = layer_.tokens * width_ / s,
            .value_width = width(heads_.v)};
  }

  void unfused(Tensor output) {
    const double scores = layer_.tokens * heads() * static_cast<double>(model_.seq_len),
                 e = layer_.element;
    const bool dropout = layer_.framework().dropout > 0.0;
    const Tensor raw = layer_.add(scores * e), probabilities = layer_.add(scores * e);
    layer_.flow.step(Module::CoreAttention)
        .reads(heads_.q)
        .reads(heads_.k)
        .writes(raw)
        .saves(heads_.q)
        .saves(heads_.k);
    Dataflow::Step& softmax = layer_.flow.step(Module::CoreAttention)
                                  .reads(raw)
                                  .writes(probabilities)
                                  .saves(probabilities);
    if (layer_.framework().fusion != ElementwiseFusion::Eager) softmax.gradient_in_place();
    const Tensor weights = dropout ? drop_out(probabilities, scores) : probabilities;
    const Tensor by_heads = layer_.add(layer_.tokens * width_ * e);
    layer_.flow.step(Module::CoreAttention)
        .reads(weights)
        .reads(heads_.v)
        .writes(by_heads)
        .saves(weights)
        .saves(heads_.v);
    layer_.flow.step(Module::CoreAttention).reads(by_heads).writes(output);
  }

  Tensor drop_out(Tensor probabilities, double scores) {
    const Tensor dropped = layer_.add(scores * layer_.element),
                 mask = layer_.add(scores, Role::Statistic);
    layer_.flow.step(Module::CoreAttention)
        .reads(probabilities)
        .writes(dropped)
        .writes(mask)
        .saves(mask)
        .gradient_in_place();
    return dropped;
  }

  LayerDataflow& layer_;
  AttentionInputs heads_;
  const Transformer& model_;
  const Strategy& strategy_;
  double width_;  // of the output, on this rank
};

class BlockDataflow {
 public:
  BlockDataflow(const Transformer& model, const Strategy& strategy, const Framework& framework,
                LayerKind kind)
      : model_(model),
        strategy_(strategy),
        framework_(framework),
        kind_(kind),
        weights_(layer_weights(model, kind, strategy.tp)),
        layer_(model, strategy, framework) {}

  Dataflow flow() {
    stream_ = layer_.flow.add(layer_.residual());
    layer_.flow.set_input(stream_);
    attention_half();
    layer_.flow.begin_second_half();
    mlp_half();
    layer_.flow.set_output(stream_);
    return std::move(layer_.flow);
  }

 private:
  bool parallel() const { return model_.parallel_block; }
  bool adapts(WeightName name) const {
    return strategy_.adapters &&
           !adapted_columns(strategy_.adapters->layers, weights_[name]).empty();
  }
  bool eager() const { return framework_.fusion == ElementwiseFusion::Eager; }

  LayerWeight weight(WeightName name) const { return weights_[name].on_rank(strategy_.tp); }
  // Values that a GEMM gives for all tokens on this rank, and that it reads.
  double outputs(WeightName name) const {
    return layer_.tokens * static_cast<double>(weight(name).columns);
  }
  double inputs(WeightName name) const {
    return layer_.tokens * static_cast<double>(weight(name).rows);
  }

  void attention_half() {
    normed_ = add_norm(layer_, stream_);
    const AttentionInputs heads = model_.mla ? mla_inputs(*model_.mla) : attention_inputs();
    const Tensor core = CoreDataflow(layer_, heads).output();
    if (strategy_.micro_batch > 1 && copies_attention_output())
      layer_.save_extra(Module::AttentionOutput, layer_.size(core));
    const Tensor output =
        layer_.row_gemm(Module::AttentionOutput, core, weight(WeightName::AttentionOutput),
                        layer_.keeps_input(adapts(WeightName::AttentionOutput)), !parallel());
    if (parallel()) {
      attention_ = output;
      return;
    }
    end_half(output);
  }

  AttentionInputs attention_inputs() {
    const double e = layer_.element, q = inputs(WeightName::AttentionOutput),
                 kv = (outputs(WeightName::Qkv) - q) / 2.0;
    const double kept = framework_.saved.expanded_kv_heads ? q : kv;
    if (!layer_.autograd()) return copied_heads(q, kv);
    AttentionInputs heads{
        .q = layer_.add(q * e), .k = layer_.add(kept * e), .v = layer_.add(kept * e)};
    layer_.column_gemm(Module::Qkv, normed_, {heads.q, heads.k, heads.v}, weight(WeightName::Qkv),
                       layer_.keeps_input(adapts(WeightName::Qkv)));
    if (model_.qk_norm != QkNorm::None) layer_.save_extra(Module::Qkv, Bytes((q + kv) * e));
    if (adapts(WeightName::Qkv)) layer_.save_adapter_dropout(layer_.residual_elements());
    if (framework_.saved.fused_qkv) layer_.save_extra(Module::Qkv, Bytes((q + kv) * e));
    return heads;
  }

  // What the GEMM gives is copied by heads.
  AttentionInputs copied_heads(double q, double kv) {
    const double e = layer_.element;
    const Tensor joined = layer_.add(outputs(WeightName::Qkv) * e);
    layer_.column_gemm(Module::Qkv, normed_, {joined}, weight(WeightName::Qkv), true);
    const AttentionInputs heads{
        .q = layer_.add(q * e), .k = layer_.add(kv * e), .v = layer_.add(kv * e)};
    layer_.flow.step(Module::Qkv).reads(joined).writes(heads.q).writes(heads.k).writes(heads.v);
    return heads;
  }

  // Every tensor rank has the latents of its tokens, and gathers those of all for the GEMMs up.
  AttentionInputs mla_inputs(const Mla& mla) {
    const double e = layer_.element, queries = outputs(WeightName::QueryUp) * e,
                 rope = layer_.tokens * mla.qk_rope_head_dim * e;
    const Tensor query_input =
        mla.q_lora_rank ? latents(WeightName::QueryDown, WeightName::QueryNorm) : normed_;
    const Tensor key_input = latents(WeightName::MlaDown, WeightName::MlaNorm);
    const AttentionInputs heads{.q = layer_.add(queries),
                                .k = layer_.add(queries),
                                .v = layer_.add(inputs(WeightName::AttentionOutput) * e)};
    const Tensor query_rows = up_from(query_input, WeightName::QueryUp);
    layer_.flow.step(Module::MlaUp).reads(query_rows).writes(heads.q);
    const Tensor key_rows = up_from(key_input, WeightName::MlaUp);
    layer_.flow.step(Module::MlaUp)
        .reads(key_rows)
        .writes(heads.k)
        .writes(heads.v)
        .forward_workspace(Bytes(rope))
        .backward_workspace(Bytes(rope));
    return heads;
  }

  Tensor latents(WeightName matrix, WeightName norm) {
    const Tensor down = layer_.own_gemm(Module::Qkv, normed_, weight(matrix));
    return add_norm(layer_, down, static_cast<double>(weight(norm).columns));
  }

  Tensor up_from(Tensor latents, WeightName matrix) {
    const Tensor rows = layer_.add(outputs(matrix) * layer_.element);
    layer_.column_gemm(Module::MlaUp, latents, {rows}, weight(matrix), true);
    return rows;
  }

  // A single sequence is transposed by a view; ring attention merges partial results into a new
  // tensor instead.
  bool copies_attention_output() const {
    const AttentionKernel kernel = framework_.attention_kernel;
    const bool flash = kernel == AttentionKernel::Flash1 || kernel == AttentionKernel::Flash2 ||
                       kernel == AttentionKernel::Flash3;
    return framework_.saved.flash_output_copied && strategy_.flash_attention && flash &&
           strategy_.cp == 1;
  }

  void mlp_half() {
    if (!parallel() || model_.norms_per_layer >= 2) normed_ = add_norm(layer_, stream_);
    Tensor output = kind_ == LayerKind::Moe ? add_moe(layer_, normed_) : mlp();
    if (parallel()) {
      layer_.flow.add_in_place(attention_, output);
      output = layer_.reduce(Module::MlpDown, output);
    }
    end_half(output);
  }

  Tensor mlp() {
    const double f = inputs(WeightName::MlpDown), e = layer_.element;
    const Tensor gate = model_.gated_mlp ? layer_.add(f * e) : Dataflow::kNone,
                 up = layer_.add(f * e), inner = layer_.add(f * e);
    layer_.column_gemm(Module::MlpUp, normed_, {gate, up}, weight(WeightName::MlpUp),
                       layer_.keeps_input(adapts(WeightName::MlpUp)));
    // Silu(gate).
    if (model_.gated_mlp && eager()) layer_.save_extra(Module::Activation, Bytes(f * e));
    if (!model_.gated_mlp && eager() && framework_.composed_activation)
      layer_.save_extra(Module::Activation, Bytes(kComposedGeluKeeps * f * e));
    layer_.flow.step(Module::Activation).reads(gate).reads(up).writes(inner).saves(gate).saves(up);
    if (adapts(WeightName::MlpDown)) layer_.save_adapter_dropout(f);
    layer_.flow.end_of_needed();
    return layer_.row_gemm(Module::MlpDown, inner, weight(WeightName::MlpDown),
                           layer_.keeps_input(adapts(WeightName::MlpDown)), !parallel());
  }

  // A policy may keep what a GEMM returns: the residual stream goes on in another tensor.
  Tensor copied(Tensor output) {
    const Tensor sum = layer_.flow.add(layer_.residual());
    layer_.flow.step(Module::Residual).writes(sum);
    layer_.flow.add_in_place(output, sum);
    return sum;
  }

  // Post-norm, dropout and the sum with the residual stream.
  void end_half(Tensor output) {
    if (model_.norms_per_layer >= 4) output = add_norm(layer_, output);
    if (framework_.dropout > 0.0)
      layer_.save_extra(Module::Residual, Bytes(layer_.residual_elements()));
    if (strategy_.recompute.kind == RecomputeKind::Op) output = copied(output);
    layer_.flow.add_in_place(stream_, output);
    stream_ = output;
  }

  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  LayerKind kind_;
  LayerWeights weights_;
  LayerDataflow layer_;
  Tensor stream_ = Dataflow::kNone;  // the residual stream
  Tensor normed_ = Dataflow::kNone;
  Tensor attention_ = Dataflow::kNone;  // of a parallel block: to be summed with the MLP
};

}  // namespace

Dataflow block_dataflow(const Transformer& model, const Strategy& strategy,
                        const Framework& framework, LayerKind kind) {
  return BlockDataflow(model, strategy, framework, kind).flow();
}

}  // namespace llmsim::sim
