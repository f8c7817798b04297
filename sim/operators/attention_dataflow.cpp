#include "sim/operators/attention_dataflow.h"

#include "sim/operators/attention_core.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

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

}  // namespace

Dataflow::Tensor add_core_attention(LayerDataflow& layer, const AttentionInputs& heads) {
  return CoreDataflow(layer, heads).output();
}

}  // namespace llmsim::sim
