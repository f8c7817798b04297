// The embedding of a model, and its final norm with the LM head and the loss, as they execute.
//
// A tied head reads the embedding's table.  The chunked loss makes logits, loss and both gradients
// of the head chunk by chunk in the forward pass (Liger-Kernel's way): no more than one chunk of
// logits lives at a time, and the backward pass only goes through the norm.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/cross_entropy.h"
#include "runtime/kernels/norm.h"
#include "runtime/model/block.h"
#include "runtime/model/parameter_unit.h"

namespace llmsim::runtime {

// The table first, then learned positions where the model has them.
std::vector<ParameterShape> embedding_parameters(const sim::Transformer& model,
                                                 const RankShape& shape, bool tied_across_stages);
// The final norm; then the output projection: of a tied model a copy of the table, unless the table
// itself is here.
std::vector<ParameterShape> head_parameters(const sim::Transformer& model, const RankShape& shape,
                                            bool tied_here);

class Embedding {
 public:
  Embedding(const BlockContext& context, ParameterUnit& unit);

  at::Tensor forward(const at::Tensor& ids) const;  // (b s, h), or this rank's tokens of it
  void backward(at::Tensor dx, const at::Tensor& ids) const;

 private:
  const BlockContext& context_;
  Parameter table_, positions_;
};

struct HeadTape {
  at::Tensor x;
  NormOutput norm;
  at::Tensor saved;     // plain: what the loss saves of the logits
  at::Tensor gradient;  // chunked: of the norm's output, whole
};

class Head {
 public:
  // `projection`: the embedding's table under tying, none: the unit's own.
  Head(const BlockContext& context, ParameterUnit& unit, Parameter tied_table);

  // The loss of a micro-batch (its share of the mean over `tokens_of_step`), in
  // `chunks` pieces; 0: plain.
  at::Tensor forward(at::Tensor x, const at::Tensor& targets, HeadTape& tape, double tokens_of_step,
                     std::int64_t chunks) const;
  at::Tensor backward(const at::Tensor& targets, HeadTape tape, double tokens_of_step) const;

 private:
  LossContext loss_context(double tokens_of_step) const;
  at::Tensor chunked_loss(const at::Tensor& y, const at::Tensor& targets, HeadTape& tape,
                          const LossContext& loss, std::int64_t chunks) const;

  const BlockContext& context_;
  Parameter norm_weight_, norm_bias_, projection_;
};

}  // namespace llmsim::runtime
