#include "sim/operators/block_dataflow.h"

#include <algorithm>

#include "sim/base/dtype.h"
#include "sim/operators/attention_dataflow.h"
#include "sim/operators/layer_dataflow.h"
#include "sim/operators/moe_dataflow.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

class BlockDataflow {
 public:
  BlockDataflow(const Transformer& model, const Strategy& strategy, const Framework& framework,
                LayerKind kind)
      : model_(model),
        strategy_(strategy),
        framework_(framework),
        kind_(kind),
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
  bool all_adapted() const { return strategy_.adapters && strategy_.adapters->all_linear; }
  bool eager() const { return framework_.fusion == ElementwiseFusion::Eager; }

  void attention_half() {
    normed_ = add_norm(layer_, stream_);
    const AttentionInputs heads = model_.mla ? mla_inputs(*model_.mla) : attention_inputs();
    const Tensor core = add_core_attention(layer_, heads);
    if (strategy_.micro_batch > 1 && copies_attention_output())
      layer_.save_extra(Module::AttentionOutput, layer_.size(core));
    const Tensor output =
        layer_.row_gemm(Module::AttentionOutput, core, model_.bias.attention_output,
                        layer_.keeps_input(all_adapted()), !parallel());
    if (parallel()) {
      attention_ = output;
      return;
    }
    end_half(output);
  }

  AttentionInputs attention_inputs() {
    const double e = layer_.element, t = layer_.tokens;
    const double q = t * model_.num_heads / layer_.ranks * model_.head_dim,
                 kv = t * std::max(1.0, model_.num_kv_heads / layer_.ranks) * model_.head_dim;
    const double kept = framework_.saved.expanded_kv_heads ? q : kv;
    if (!layer_.autograd()) return copied_heads(q, kv);
    AttentionInputs heads{
        .q = layer_.add(q * e), .k = layer_.add(kept * e), .v = layer_.add(kept * e)};
    layer_.column_gemm(Module::Qkv, normed_, {heads.q, heads.k, heads.v}, q + 2.0 * kv,
                       model_.bias.qkv, layer_.keeps_input(true));
    if (model_.qk_norm != QkNorm::None) layer_.save_extra(Module::Qkv, Bytes((q + kv) * e));
    if (strategy_.adapters) layer_.save_adapter_dropout(layer_.residual_elements());
    if (framework_.saved.fused_qkv) layer_.save_extra(Module::Qkv, Bytes((q + kv) * e));
    return heads;
  }

  // What the GEMM gives is copied by heads.
  AttentionInputs copied_heads(double q, double kv) {
    const double e = layer_.element;
    const Tensor joined = layer_.add((q + 2.0 * kv) * e);
    layer_.column_gemm(Module::Qkv, normed_, {joined}, q + 2.0 * kv, model_.bias.qkv, true);
    const AttentionInputs heads{
        .q = layer_.add(q * e), .k = layer_.add(kv * e), .v = layer_.add(kv * e)};
    layer_.flow.step(Module::Qkv).reads(joined).writes(heads.q).writes(heads.k).writes(heads.v);
    return heads;
  }

  // Every tensor rank has the latents of its tokens, and gathers those of all for the GEMMs up.
  AttentionInputs mla_inputs(const Mla& mla) {
    const double e = layer_.element, t = layer_.tokens,
                 heads = static_cast<double>(model_.num_heads) / layer_.ranks;
    const double d = query_head_dim(model_), rank = mla.kv_lora_rank, rope = mla.qk_rope_head_dim;
    Tensor query_input = normed_;
    if (mla.q_lora_rank) {
      const Tensor down = layer_.own_gemm(Module::Qkv, normed_, *mla.q_lora_rank);
      query_input = add_norm(layer_, down, *mla.q_lora_rank);
    }
    const Tensor latents = layer_.own_gemm(Module::Qkv, normed_, rank + rope);
    const Tensor normed_latents = add_norm(layer_, latents, rank);
    const AttentionInputs inputs{.q = layer_.add(t * heads * d * e),
                                 .k = layer_.add(t * heads * d * e),
                                 .v = layer_.add(t * heads * mla.v_head_dim * e)};
    const Tensor rows = layer_.add(t * heads * d * e);
    layer_.column_gemm(Module::MlaUp, query_input, {rows}, heads * d * t, false, true);
    layer_.flow.step(Module::MlaUp).reads(rows).writes(inputs.q);
    const Tensor key_rows = layer_.add(t * heads * (mla.qk_nope_head_dim + mla.v_head_dim) * e);
    layer_.column_gemm(Module::MlaUp, normed_latents, {key_rows},
                       t * heads * (mla.qk_nope_head_dim + mla.v_head_dim), false, true);
    layer_.flow.step(Module::MlaUp)
        .reads(key_rows)
        .writes(inputs.k)
        .writes(inputs.v)
        .forward_workspace(Bytes(t * rope * e))
        .backward_workspace(Bytes(t * rope * e));
    return inputs;
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
    const double f = layer_.tokens * model_.ffn_size / layer_.ranks, e = layer_.element;
    const Tensor gate = model_.gated_mlp ? layer_.add(f * e) : Dataflow::kNone,
                 up = layer_.add(f * e), inner = layer_.add(f * e);
    layer_.column_gemm(Module::MlpUp, normed_, {gate, up}, (model_.gated_mlp ? 2.0 : 1.0) * f,
                       model_.bias.mlp, layer_.keeps_input(all_adapted()));
    // Silu(gate).
    if (model_.gated_mlp && eager()) layer_.save_extra(Module::Activation, Bytes(f * e));
    if (!model_.gated_mlp && eager() && framework_.composed_activation)
      layer_.save_extra(Module::Activation, Bytes(kComposedGeluKeeps * f * e));
    layer_.flow.step(Module::Activation).reads(gate).reads(up).writes(inner).saves(gate).saves(up);
    if (all_adapted()) layer_.save_adapter_dropout(f);
    layer_.flow.end_of_needed();
    return layer_.row_gemm(Module::MlpDown, inner, model_.bias.mlp,
                           layer_.keeps_input(all_adapted()), !parallel());
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
