#include "sim/operators/dataflow.h"

#include <algorithm>

#include "sim/base/dtype.h"
#include "sim/model/parameters.h"
#include "sim/operators/attention_core.h"
#include "sim/operators/dataflow/layer.h"
#include "sim/operators/scans.h"
#include "sim/strategy/adapters.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

// Queries, keys and values of all heads on this rank.
struct AttentionInputs {
  Tensor q, k, v;
  Tensor gate = Dataflow::kNone;  // of the output
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
    // Under autocast the softmax gives fp32, which is cast for the GEMM.
    const Tensor raw = layer_.add(scores * e),
                 probabilities = layer_.add(scores * (layer_.autocasts() ? kFp32Bytes : e));
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
    const Tensor weights = dropout              ? drop_out(probabilities, scores)
                           : layer_.autocasts() ? cast_down(probabilities, scores)
                                                : probabilities;
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

  Tensor cast_down(Tensor probabilities, double scores) {
    const Tensor cast = layer_.add(scores * layer_.element);
    layer_.flow.step(Module::CoreAttention).reads(probabilities).writes(cast);
    return cast;
  }

  LayerDataflow& layer_;
  AttentionInputs heads_;
  const Transformer& model_;
  const Strategy& strategy_;
  double width_;  // of the output, on this rank
};

// What the halves of a block have in common.
struct BlockTensors {
  LayerDataflow& layer;
  LayerWeights weights;

  const Transformer& model() const { return layer.model(); }
  const Strategy& strategy() const { return layer.strategy(); }
  const Framework& framework() const { return layer.framework(); }
  bool parallel() const { return model().parallel_block; }
  bool eager() const { return framework().fusion == ElementwiseFusion::Eager; }
  bool adapts(WeightName name) const {
    return strategy().adapters &&
           !adapted_columns(strategy().adapters->layers, weights[name]).empty();
  }

  LayerWeight weight(WeightName name) const { return weights[name].on_rank(strategy().tp); }
  // Values that a GEMM gives for all tokens on this rank, and that it reads.
  double outputs(WeightName name) const {
    return layer.tokens * static_cast<double>(weight(name).columns);
  }
  double inputs(WeightName name) const {
    return layer.tokens * static_cast<double>(weight(name).rows);
  }

  // Of a mixer: what it projects from the residual stream, and back to it from `values`.
  Tensor mixer_input(Tensor normed) const {
    const Tensor projected = layer.add(outputs(WeightName::MixerInput) * layer.element);
    const bool adapted = adapts(WeightName::MixerInput);
    layer.column_gemm(Module::MixerInput, normed, {projected}, weight(WeightName::MixerInput),
                      layer.keeps_input(adapted));
    if (adapted) layer.save_adapter_dropout(layer.residual_elements());
    return projected;
  }
  Tensor mixer_output(Tensor values, bool alone) const {
    const bool adapted = adapts(WeightName::MixerOutput);
    if (adapted) layer.save_adapter_dropout(inputs(WeightName::MixerOutput));
    if (alone) layer.flow.end_of_needed();
    return layer.row_gemm(Module::MixerOutput, values, weight(WeightName::MixerOutput),
                          layer.keeps_input(adapted), true);
  }
};

// What the GEMM gives is copied by heads.
AttentionInputs copied_heads(const BlockTensors& b, Tensor normed, double q, double kv) {
  const double e = b.layer.element;
  const Tensor joined = b.layer.add(b.outputs(WeightName::Qkv) * e);
  b.layer.column_gemm(Module::Qkv, normed, {joined}, b.weight(WeightName::Qkv), true);
  const AttentionInputs heads{
      .q = b.layer.add(q * e), .k = b.layer.add(kv * e), .v = b.layer.add(kv * e)};
  b.layer.flow.step(Module::Qkv).reads(joined).writes(heads.q).writes(heads.k).writes(heads.v);
  return heads;
}

AttentionInputs attention_inputs(const BlockTensors& b, Tensor normed) {
  const double e = b.layer.element, q = b.inputs(WeightName::AttentionOutput),
               queries = b.model().attention_gate ? 2.0 * q : q,
               kv = (b.outputs(WeightName::Qkv) - queries) / 2.0;
  const double kept = b.framework().saved.expanded_kv_heads ? q : kv;
  if (!b.layer.autograd()) return copied_heads(b, normed, q, kv);
  AttentionInputs heads{
      .q = b.layer.add(q * e), .k = b.layer.add(kept * e), .v = b.layer.add(kept * e)};
  if (b.model().attention_gate) heads.gate = b.layer.add(q * e);
  b.layer.column_gemm(Module::Qkv, normed, {heads.q, heads.k, heads.v, heads.gate},
                      b.weight(WeightName::Qkv), b.layer.keeps_input(b.adapts(WeightName::Qkv)));
  if (b.model().qk_norm != QkNorm::None) b.layer.save_extra(Module::Qkv, Bytes((q + kv) * e));
  if (b.adapts(WeightName::Qkv)) b.layer.save_adapter_dropout(b.layer.residual_elements());
  if (b.framework().saved.fused_qkv) b.layer.save_extra(Module::Qkv, Bytes((q + kv) * e));
  return heads;
}

// A single sequence is transposed by a view; ring attention merges partial results into a new
// tensor instead.
bool copies_attention_output(const BlockTensors& b) {
  const AttentionKernel kernel = b.framework().attention_kernel;
  const bool flash = kernel == AttentionKernel::Flash1 || kernel == AttentionKernel::Flash2 ||
                     kernel == AttentionKernel::Flash3;
  return b.framework().saved.flash_output_copied && b.strategy().flash_attention && flash &&
         b.strategy().cp == 1;
}

// A policy may keep what a GEMM returns, and under autocast it has another format: the residual
// stream goes on in another tensor.
Tensor copied(const BlockTensors& b, Tensor output) {
  const Tensor sum = b.layer.flow.add(b.layer.residual());
  b.layer.flow.step(Module::Residual).writes(sum);
  b.layer.flow.add_in_place(output, sum);
  return sum;
}

// Post-norm, dropout and the sum with the residual stream, which it gives.
Tensor end_half(const BlockTensors& b, Tensor stream, Tensor output) {
  if (b.model().norms_per_layer >= 4) output = add_norm(b.layer, output);
  if (b.framework().dropout > 0.0)
    b.layer.save_extra(Module::Residual, Bytes(b.layer.residual_elements()));
  if (b.strategy().recompute.kind == RecomputeKind::Op || b.layer.autocasts())
    output = copied(b, output);
  b.layer.flow.add_in_place(stream, output);
  return output;
}

Tensor latents(const BlockTensors& b, Tensor normed, WeightName matrix, WeightName norm) {
  const Tensor down = b.layer.own_gemm(Module::Qkv, normed, b.weight(matrix));
  return add_norm(b.layer, down, static_cast<double>(b.weight(norm).columns));
}

Tensor up_from(const BlockTensors& b, Tensor latents, WeightName matrix) {
  const Tensor rows = b.layer.add(b.outputs(matrix) * b.layer.element);
  b.layer.column_gemm(Module::MlaUp, latents, {rows}, b.weight(matrix), true);
  return rows;
}

// Every tensor rank has the latents of its tokens, and gathers those of all for the GEMMs up.
AttentionInputs mla_inputs(const BlockTensors& b, Tensor normed, const Mla& mla) {
  const double e = b.layer.element, queries = b.outputs(WeightName::QueryUp) * e,
               rope = b.layer.tokens * mla.qk_rope_head_dim * e;
  const Tensor query_input =
      mla.q_lora_rank ? latents(b, normed, WeightName::QueryDown, WeightName::QueryNorm) : normed;
  const Tensor key_input = latents(b, normed, WeightName::MlaDown, WeightName::MlaNorm);
  const AttentionInputs heads{.q = b.layer.add(queries),
                              .k = b.layer.add(queries),
                              .v = b.layer.add(b.inputs(WeightName::AttentionOutput) * e)};
  const Tensor query_rows = up_from(b, query_input, WeightName::QueryUp);
  b.layer.flow.step(Module::MlaUp).reads(query_rows).writes(heads.q);
  const Tensor key_rows = up_from(b, key_input, WeightName::MlaUp);
  b.layer.flow.step(Module::MlaUp)
      .reads(key_rows)
      .writes(heads.k)
      .writes(heads.v)
      .forward_workspace(Bytes(rope))
      .backward_workspace(Bytes(rope));
  return heads;
}

// The output of attention times the sigmoid of its gate.
Tensor gated(const BlockTensors& b, const AttentionInputs& heads, Tensor core) {
  if (heads.gate == Dataflow::kNone) return core;
  const Tensor product = b.layer.flow.add(b.layer.size(core));
  b.layer.flow.step(Module::AttentionOutput)
      .reads(core)
      .reads(heads.gate)
      .writes(product)
      .saves(core)
      .saves(heads.gate);
  return product;
}

// The half's output, of a parallel block to be summed with the MLP's.  `alone`: the layer has no
// MLP, so that nothing after the last GEMM is needed again.
Tensor attention(const BlockTensors& b, Tensor normed, bool alone) {
  const AttentionInputs heads =
      b.model().mla ? mla_inputs(b, normed, *b.model().mla) : attention_inputs(b, normed);
  const Tensor core = gated(b, heads, CoreDataflow(b.layer, heads).output());
  if (b.strategy().micro_batch > 1 && copies_attention_output(b))
    b.layer.save_extra(Module::AttentionOutput, b.layer.size(core));
  if (alone) b.layer.flow.end_of_needed();
  return b.layer.row_gemm(Module::AttentionOutput, core, b.weight(WeightName::AttentionOutput),
                          b.layer.keeps_input(b.adapts(WeightName::AttentionOutput)),
                          !b.parallel());
}

Tensor mlp(const BlockTensors& b, Tensor normed) {
  const double f = b.inputs(WeightName::MlpDown), e = b.layer.element;
  const Tensor gate = b.model().gated_mlp ? b.layer.add(f * e) : Dataflow::kNone,
               up = b.layer.add(f * e), inner = b.layer.add(f * e);
  b.layer.column_gemm(Module::MlpUp, normed, {gate, up}, b.weight(WeightName::MlpUp),
                      b.layer.keeps_input(b.adapts(WeightName::MlpUp)));
  // Silu(gate).
  if (b.model().gated_mlp && b.eager()) b.layer.save_extra(Module::Activation, Bytes(f * e));
  if (!b.model().gated_mlp && b.eager() && b.framework().composed_activation)
    b.layer.save_extra(Module::Activation, Bytes(kComposedGeluKeeps * f * e));
  b.layer.activation(Module::MlpUp, Module::Activation, gate, up, inner);
  if (b.adapts(WeightName::MlpDown)) b.layer.save_adapter_dropout(f);
  b.layer.flow.end_of_needed();
  return b.layer.row_gemm(Module::MlpDown, inner, b.weight(WeightName::MlpDown),
                          b.layer.keeps_input(b.adapts(WeightName::MlpDown)), !b.parallel());
}

// Convolution, scan and gate are one function of autograd, which saves what it reads and y before
// the gate, and makes all else again.  Source: mamba_ssm ops/triton/ssd_combined.py,
// MambaSplitConv1dScanCombinedFn.
Tensor scan(const BlockTensors& b, Tensor projected) {
  const Mamba& mamba = *b.model().mamba;
  const double e = b.layer.element, heads = b.layer.tokens * mamba.num_heads / b.layer.ranks,
               channels = b.layer.tokens * mamba.conv_channels() / b.layer.ranks;
  const ScanBytes bytes = scan_bytes(mamba, e);
  const double values = b.inputs(WeightName::MixerOutput) * e;
  const Tensor y = b.layer.add(values), before_gate = b.layer.add(values, Role::Statistic);
  b.layer.flow.step(Module::Scan)
      .reads(projected)
      .writes(y)
      .writes(before_gate)
      .saves(projected)
      .saves(before_gate)
      .forward_workspace(Bytes(channels * e + heads * bytes.forward_workspace))
      .backward_workspace(Bytes(2.0 * channels * e + heads * bytes.backward_workspace));
  return y;
}

// The half's output.
Tensor mamba(const BlockTensors& b, Tensor normed, bool alone) {
  const Tensor y = scan(b, b.mixer_input(normed));
  const Tensor gated = b.layer.add(b.layer.size(y).value()),
               deviations = b.layer.add(b.layer.tokens * kFp32Bytes, Role::Statistic);
  b.layer.flow.step(Module::MixerNorm)
      .reads(y)
      .writes(gated)
      .writes(deviations)
      .saves(y)
      .saves(deviations);
  return b.mixer_output(gated, alone);
}

// q, k, v of all heads go into the delta rule, which saves them as it has normalised and repeated
// them; the convolution saves what it reads.
Tensor delta_rule(const BlockTensors& b, Tensor projected) {
  const GatedDeltaNet& net = *b.model().gated_delta_net;
  const double e = b.layer.element, heads = b.layer.tokens * net.num_value_heads / b.layer.ranks;
  const ScanBytes bytes = scan_bytes(net, e);
  const Tensor output = b.layer.add(b.inputs(WeightName::MixerOutput) * e),
               saved = b.layer.add(heads * saved_by_delta_rule(net, e), Role::Statistic);
  b.layer.flow.step(Module::Scan)
      .reads(projected)
      .writes(output)
      .writes(saved)
      .saves(projected)
      .saves(saved)
      .forward_workspace(Bytes(heads * bytes.forward_workspace))
      .backward_workspace(Bytes(heads * bytes.backward_workspace));
  return output;
}

// The half's output.  The gate z is among what the first GEMM gives; the second one's values are
// few.
Tensor delta_net(const BlockTensors& b, Tensor normed, bool alone) {
  const Tensor output = delta_rule(b, b.mixer_input(normed));
  const Tensor normalised = b.layer.flow.add(b.layer.size(output)),
               product = b.layer.flow.add(b.layer.size(output));
  b.layer.flow.step(Module::MixerNorm).reads(output).writes(normalised).saves(output);
  b.layer.flow.step(Module::MixerNorm).reads(normalised).writes(product).saves(normalised);
  return b.mixer_output(product, alone);
}

// The steps of all channels, from a bottleneck that is projected beside B and C and normalised like
// them; B and C in `normed`.  Statistics of these norms, whose rows are narrow, are left out.
struct Selection {
  Tensor normed, steps;
};

Selection selection(const BlockTensors& b, Tensor channels) {
  const double e = b.layer.element, values = b.outputs(WeightName::SelectionProjection) * e;
  const Tensor projected = b.layer.add(values), normed = b.layer.add(values),
               steps = b.layer.add(b.outputs(WeightName::StepProjection) * e);
  const bool adapted = b.adapts(WeightName::SelectionProjection);
  if (adapted) b.layer.save_adapter_dropout(b.inputs(WeightName::SelectionProjection));
  b.layer.gemm(Module::Scan, channels, {projected}, b.weight(WeightName::SelectionProjection),
               b.layer.keeps_input(adapted) ? channels : Dataflow::kNone);
  b.layer.flow.step(Module::Scan).reads(projected).writes(normed).saves(projected);
  b.layer.gemm(Module::Scan, normed, {steps}, b.weight(WeightName::StepProjection),
               b.layer.keeps_input(false) ? normed : Dataflow::kNone);
  return {.normed = normed, .steps = steps};
}

// The half's output.  The convolution saves all that the first GEMM gives, of which it reads a
// part.
Tensor mamba1(const BlockTensors& b, Tensor normed, bool alone) {
  const Mamba1& mamba = *b.model().mamba1;
  const double e = b.layer.element, values = b.inputs(WeightName::MixerOutput);
  const int tokens = b.model().seq_len;
  const ScanBytes bytes = scan_bytes(mamba, tokens, e);
  const Tensor projected = b.mixer_input(normed), channels = b.layer.add(values * e);
  b.layer.flow.step(Module::Scan).reads(projected).writes(channels).saves(projected);
  const Selection selected = selection(b, channels);
  const Tensor y = b.layer.add(values * e),
               saved =
                   b.layer.add(values * saved_by_selective_scan(mamba, tokens, e), Role::Statistic);
  b.layer.flow.step(Module::Scan)
      .reads(projected)
      .reads(channels)
      .reads(selected.normed)
      .reads(selected.steps)
      .writes(y)
      .writes(saved)
      .saves(selected.normed)
      .saves(selected.steps)
      .saves(saved)
      .forward_workspace(Bytes(values * bytes.forward_workspace))
      .backward_workspace(Bytes(values * bytes.backward_workspace));
  return b.mixer_output(y, alone);
}

// Attention, or what mixes in its place.
Tensor mixer(const BlockTensors& b, LayerKind kind, Tensor normed) {
  const bool alone = kind.mlp == LayerMlp::None;
  switch (kind.mixer) {
    case Mixer::Mamba2: return mamba(b, normed, alone);
    case Mixer::GatedDeltaNet: return delta_net(b, normed, alone);
    case Mixer::Mamba1: return mamba1(b, normed, alone);
    default: return attention(b, normed, alone);
  }
}

// Attention and MLP beside each other, on one norm or on two.
Tensor parallel_block(const BlockTensors& b, LayerKind kind, Tensor input) {
  const Tensor attention_norm = add_norm(b.layer, input);
  const Tensor attended = attention(b, attention_norm, false);
  b.layer.flow.begin_second_half();
  const Tensor normed = b.model().norms_per_layer >= 2 ? add_norm(b.layer, input) : attention_norm;
  const Tensor output = kind.has_experts() ? add_moe(b.layer, normed) : mlp(b, normed);
  b.layer.flow.add_in_place(attended, output);
  return end_half(b, input, b.layer.reduce(Module::MlpDown, output));
}

}  // namespace

Dataflow block_dataflow(const Transformer& model, const Strategy& strategy,
                        const Framework& framework, LayerKind kind) {
  LayerDataflow layer(model, strategy, framework);
  const BlockTensors b{.layer = layer, .weights = layer_weights(model, kind, strategy.tp)};
  Tensor stream = layer.flow.add(layer.residual());
  layer.flow.set_input(stream);
  if (b.parallel()) {
    layer.flow.set_output(parallel_block(b, kind, stream));
    return std::move(layer.flow);
  }
  if (kind.mixer != Mixer::None)
    stream = end_half(b, stream, mixer(b, kind, add_norm(layer, stream)));
  layer.flow.begin_second_half();
  if (kind.mlp != LayerMlp::None) {
    const Tensor normed = add_norm(layer, stream);
    stream = end_half(b, stream, kind.has_experts() ? add_moe(layer, normed) : mlp(b, normed));
  }
  layer.flow.set_output(stream);
  return std::move(layer.flow);
}

}  // namespace llmsim::sim
