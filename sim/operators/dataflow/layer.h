// What the layers of a model have in common as tensors: linear layers, norms, sums over tensor
// ranks.
//
// For the files of this folder only.  Sizes in bytes of one micro-batch on one rank; n =
// tensor_parallel, t tokens, e bytes an activation.
#pragma once

#include <initializer_list>
#include <optional>

#include "sim/base/dtype.h"
#include "sim/model/parameters.h"
#include "sim/model/transformer.h"
#include "sim/operators/dataflow.h"
#include "sim/operators/linear.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

class LayerDataflow {
 public:
  using Tensor = Dataflow::Tensor;
  using Role = Dataflow::Role;

  LayerDataflow(const Transformer& model, const Strategy& strategy, const Framework& framework);

  Dataflow flow;
  double element;  // e
  double tokens;   // t
  double ranks;    // n
  bool gathers;    // sequence parallelism: the residual stream is divided over the tensor ranks

  const Transformer& model() const { return model_; }
  const Strategy& strategy() const { return strategy_; }
  const Framework& framework() const { return framework_; }

  // Whether results of composed kernels stay for the backward pass, as autograd keeps them.
  bool autograd() const { return framework_.autograd; }
  // Of a value of the residual stream and of what norms give: e, under autocast 4.
  double stream_element() const { return stream_element_; }
  bool autocasts() const { return stream_element_ > element; }
  double own_tokens() const { return gathers ? tokens / ranks : tokens; }
  double residual_elements() const { return own_tokens() * model_.hidden_size; }
  Bytes residual() const { return Bytes(residual_elements() * stream_element_); }
  Bytes whole_residual() const { return Bytes(tokens * model_.hidden_size * element); }
  Bytes size(Tensor tensor) const { return flow.size(tensor); }

  Tensor add(double bytes, Role role = Role::Activation) { return flow.add(Bytes(bytes), role); }

  // Saved bytes that nothing reads in the forward pass: masks, intermediate results of one kernel,
  // copies in another format.
  void save_extra(Module module, Bytes size);
  void save_adapter_dropout(double elements);
  // What a linear layer saves of its input x: a copy in the format of its GEMM, or x itself where
  // that is the format, where x is saved anyway (the output of attention), or where a recomputed
  // module writes x again.
  // Under autocast each matrix of the module has a copy of its own of what a norm gives.
  // Source: Megatron-LM core/transformer/attention.py and transformer_layer.py,
  // set_save_original_input.
  Tensor saved_input(Module module, Tensor x);
  bool is_copied_by_autocast(Tensor x) const;
  // Of an element that a linear layer saves.
  double input_bytes() const { return linear_input_bytes(linear_); }
  // Whether a policy that keeps every second GEMM counts those of linear layers.
  bool counted_by_policy() const {
    return !is_low_precision(matmul_dtype(strategy_.precision)) ||
           framework_.low_precision.counted_by_policy;
  }
  // Linear layers keep their input for the weight gradient; frozen ones have none.
  bool keeps_input(bool adapted) const {
    return !strategy_.adapters || adapted || framework_.saved.frozen_inputs;
  }

  // While the gradient of a weight and its bias is made: what the GEMM gives before it is added to
  // gradients of another format, and the sum over tokens for the bias, whichever is larger.
  //
  // Where gradients are those of units (ShardedWeights::gradients_of_units) a block has none: what
  // the GEMM gives is part of StageBytes::gradient_buffers.  The head has what it gives, and the
  // other format of its reduction.
  Bytes weight_gradient_workspace(Module module, const LayerWeight& weight) const;

  // A weight is as it stands on this rank (LayerWeight::on_rank), here and below.
  //
  // y = x w; `saved`: what the gradient of the weight is made from, if any; `again`: what the
  // backward pass gathers for it once more.
  Dataflow::Step& gemm(Module module, Tensor x, std::initializer_list<Tensor> y,
                       const LayerWeight& weight, Tensor saved, Bytes again = {});
  // On this rank's columns: the input is gathered with sequence parallelism, again in the backward
  // pass.
  void column_gemm(Module module, Tensor x, std::initializer_list<Tensor> y,
                   const LayerWeight& weight, bool saves_input);
  // On this rank's own tokens, with the whole weight.
  Tensor own_gemm(Module module, Tensor x, const LayerWeight& weight);
  // On this rank's rows of the weight, to the residual stream; `reduces`: summed over the tensor
  // ranks.
  Tensor row_gemm(Module module, Tensor x, const LayerWeight& weight, bool saves_input,
                  bool reduces);
  // Of an MLP with or without a gate, behind the GEMM of module `up`.  What the backward pass needs
  // is kept as it is, or of a gated one as a copy in 8 bits, which it casts back
  // (SavedActivations::fp8_activation_inputs).
  void activation(Module up, Module module, Tensor gate, Tensor values, Tensor inner);
  // The sum over tensor ranks of a residual stream; with sequence parallelism each keeps its part.
  Tensor reduce(Module module, Tensor partial);

 private:
  double matrices(Module module) const;

  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  LinearContext linear_;
  double stream_element_;
  ModuleSet repeated_;
  // The last input that was saved as a copy, which its readers share.
  Tensor copied_ = Dataflow::kNone, copy_ = Dataflow::kNone;
};

// The norm of `x`, whose rows are this rank's tokens; `width`: of the normalised values, the hidden
// size unless given.
Dataflow::Tensor add_norm(LayerDataflow& layer, Dataflow::Tensor x,
                          std::optional<double> width = {});

// The tensors of an MoE layer: router, dispatch, experts, shared experts and combination; its
// operators and notation are experts.h's.
//
// Saved for the backward pass: the probabilities in fp32, the chosen experts' weights, three 8-byte
// indices for each row, the rows as the experts' GEMM reads them, its results where the weights
// multiply them, and the same of shared experts.
//
// Adds the layer's steps on the output of its norm; gives the sum for this rank's tokens.
Dataflow::Tensor add_moe(LayerDataflow& layer, Dataflow::Tensor x);

}  // namespace llmsim::sim
