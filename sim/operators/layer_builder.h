// Builds a layer node by node: what linear layers, norms, activations and sums over tensor ranks
// are as operators and as tensors, for the files that put layers together (attention.h, block.h,
// experts.h, mamba.h, ..., embedding_and_head.h).
//
// Notation: n = tensor_parallel, t tokens of this rank's sequences, h = hidden_size, e bytes an
// activation.  Column-parallel GEMMs divide their output by n, row-parallel ones their input.  With
// sequence_parallel the gathers before column-parallel GEMMs are all-gathers and the sums after
// row-parallel ones reduce-scatters over n, and norms and residuals work on t/n tokens; without,
// the sums are all-reduces.  8- and 4-bit recipes may cast what is gathered before it travels
// (inputs, output gradients): low_precision_bytes a value; sums travel in 16 bits.
//
// Saved for the backward pass:
//
//   norm         its input, or an fp32 copy of it (norms_in_fp32); an eager RMSNorm under autograd
//                saves the fp32 copy and the normalised input; mean and deviation, 2 values a row
//                for LayerNorm, 1 for RMSNorm
//   linear       its input, as linear_input_bytes has it; nothing where the weight is frozen
//   activation   its inputs; eager gates silu(gate), a GELU written out its intermediate results
//   residual     the dropout mask
//
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// 2022, section 4.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "sim/base/dtype.h"
#include "sim/model/parameters.h"
#include "sim/model/transformer.h"
#include "sim/operators/layer_graph.h"
#include "sim/operators/linear.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

class LayerBuilder {
 public:
  // `framework`: as it runs under the strategy (effective_framework).  `weights`: those of the
  // layer, where it has any by name.
  LayerBuilder(const Transformer& model, const Strategy& strategy, const Framework& framework,
               const LayerWeights& weights = {});

  LayerGraph layer;
  const Transformer& model;
  const Strategy& strategy;
  const Framework& framework;
  LayerWeights weights;
  LinearContext linear;
  double element;           // e
  double stream_element;    // of a value of the residual stream and of what norms give: e, or 4
  std::int64_t num_tokens;  // t
  double tokens;            // t
  double ranks;             // n
  bool gathers;             // sequence parallelism: tensor ranks share out the residual stream

  // Whether results of composed kernels stay for the backward pass, as autograd saves them.
  bool autograd() const { return framework.autograd; }
  bool eager() const { return framework.fusion == ElementwiseFusion::Eager; }
  bool autocasts() const { return stream_element > element; }
  double own_tokens() const { return gathers ? tokens / ranks : tokens; }
  double residual_elements() const { return own_tokens() * model.hidden_size; }
  TensorShape residual() const { return {own_tokens(), real(model.hidden_size), stream_element}; }
  TensorShape whole_residual() const { return {tokens, real(model.hidden_size), element}; }

  // A weight as it stands on this rank; values that its GEMM gives for all tokens on this rank, and
  // that it reads.
  LayerWeight weight(WeightName name) const { return weights[name].on_rank(strategy.tp); }
  double columns(WeightName name) const { return real(weight(name).columns); }
  double rows(WeightName name) const { return real(weight(name).rows); }
  bool adapts(WeightName name) const;
  // Linear layers save their input for the weight gradient; frozen ones have none.
  bool saves_input(WeightName name) const { return saves_input(adapts(name)); }
  bool saves_input(bool adapted) const {
    return !strategy.adapters || adapted || framework.saved.frozen_inputs;
  }
  // The GEMM of all tokens and the matrices that stand side by side in a weight.
  LayerOperators linear_of(WeightName name) const {
    return lower_linear(linear, weight(name), num_tokens);
  }

  TensorId tensor(const char* name, TensorShape shape, TensorRole role = TensorRole::Activation) {
    return layer.tensor(name, shape, role);
  }
  // `columns` values of each of this rank's tokens, in the activation format.
  TensorId values(const char* name, double columns) {
    return layer.tensor(name, {tokens, columns, element});
  }

  // Saved bytes that nothing reads in the forward pass: masks, intermediate results of one kernel,
  // copies in another format.  A node of its own, with the operators that save them.
  void save_extra(Module module, const char* name, TensorShape shape,
                  LayerOperators operators = {});
  void save_adapter_dropout(double rows, double columns);

  // While the gradient of a weight and its bias is made: what the GEMM gives before it is added to
  // gradients of another format, and the sum over tokens for the bias, whichever is larger.
  //
  // Where gradients are those of units (ShardedWeights::gradients_of_units) a block has none: what
  // the GEMM gives belongs to StageBytes::gradient_buffers.  The head has what it gives, and the
  // other format of its reduction.
  Bytes weight_gradient_workspace(Module module, const LayerWeight& weight) const;

  // What a linear layer does; its weight as it stands on this rank.
  struct Linear {
    Module module;
    LayerWeight weight;
    LayerOperators operators;
  };
  Linear linear_layer(Module module, WeightName name) const {
    return {module, weight(name), linear_of(name)};
  }
  // y = x w; `saved`: what the gradient of the weight is made from, if any; `again`: what the
  // backward pass gathers for it once more.
  Node& gemm(Linear linear, TensorId x, std::initializer_list<TensorId> y, TensorId saved,
             Bytes again = {});
  // On this rank's columns: with sequence parallelism the input is gathered, again in the backward
  // pass, and its gradient is summed.
  void column_gemm(Linear linear, SharedInput input, TensorId x, std::initializer_list<TensorId> y,
                   bool saves_input);
  // On this rank's rows of the weight, to the residual stream: a summand.
  TensorId row_gemm(const char* name, Linear linear, TensorId x, bool saves_input);
  // Of a mixer: from the residual stream, and back to it from its values.
  TensorId mixer_input(LayerOperators operators, TensorId normed);
  TensorId mixer_output(TensorId values, bool alone);

  // Collectives of `message` bytes for an input that column-parallel layers share.
  struct SharedLabels {
    const char *gather, *gather_again, *sum;
  };
  SharedInput shared_input(Module module, const SharedLabels& labels, Bytes message) const;
  // Those of a layer that reads the residual stream.
  SharedInput shared_residual(Module module) const;
  // `x` of all tensor ranks, a tensor of this shape.
  TensorId gathered(Module module, const char* name, TensorShape shape, TensorId x,
                    const SharedInput& input);
  TensorShape of_all_ranks(TensorId x) const {
    const TensorShape& own = layer[x].shape;
    return {own.rows * ranks, own.columns, own.element};
  }
  // The sum over tensor ranks of a row-parallel GEMM's output, a residual stream; with sequence
  // parallelism each rank has its shard of it.
  TensorId reduce(Module module, TensorId partial);
  TensorId reduce(Module module, TensorId partial, LayerOperators operators);

  // The norm of `x`, whose rows are this rank's tokens; `latent`: of narrower values than the
  // residual stream, within the projection to queries, keys and values.
  TensorId norm(const char* label, TensorId x) { return norm(label, x, model.hidden_size, false); }
  TensorId latent_norm(const char* label, TensorId x, std::int64_t width) {
    return norm(label, x, width, true);
  }
  // Of an MLP with or without a gate, behind the GEMM of module `up`.  What the backward pass needs
  // is saved as it is, or of a gated one as a copy in 8 bits, which it
  // casts back (SavedActivations::fp8_activation_inputs).
  void activation(Module up, Module module, TensorId gate, TensorId values, TensorId inner,
                  LayerOperators operators);

 private:
  TensorId norm(const char* label, TensorId x, std::int64_t width, bool latent);
  // What a linear layer saves of its input x: a copy in the format of its GEMM, or x itself where
  // that is the format, where x is saved anyway (the output of attention), or where a recomputed
  // module writes x again.
  // Under autocast each matrix of the module has a copy of its own of what a norm gives.
  // Source: Megatron-LM core/transformer/attention.py and
  // transformer_layer.py, set_save_original_input.
  TensorId saved_input(Module module, TensorId x);
  bool is_copied_by_autocast(TensorId x) const;
  double matrices(Module module) const;
  bool counted_by_policy() const;

  ModuleSet repeated_;
  // The last input that was saved as a copy, which its readers share.
  TensorId copied_ = kNoTensor, copy_ = kNoTensor;
};

}  // namespace llmsim::sim
