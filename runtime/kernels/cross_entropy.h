// Cross entropy of logits against target tokens, and its gradient.
//
// logits (t, V/n) of n tensor ranks, targets (t).  The loss is the mean over `tokens_of_step`
// tokens, so that the losses and gradients of all micro-batches and ranks add up; the gradient is
// (softmax - one hot) / tokens_of_step.
//
// Memory, e bytes an activation: one rank keeps log-probabilities in fp32 (4 t V), made from an
// fp32 copy of 16-bit logits; on several ranks the copy itself becomes the probabilities, as in
// Megatron-LM, with three all-reduces of a value per token (largest logit, sum, logit of the
// target).  Backward overwrites what was saved and casts it to the activations' format.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/kernels/embedding.h"
#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

struct LossContext {
  double tokens_of_step = 1.0;     // of the global batch
  VocabularyShard shard{};         // of this rank's columns
  Communicator* tensor = nullptr;  // none: the vocabulary is whole
};

struct LossOutput {
  at::Tensor loss;   // this micro-batch's share, a scalar in fp32
  at::Tensor saved;  // log-probabilities (whole vocabulary) or probabilities (divided), fp32
};

// Consumes the logits.
LossOutput cross_entropy(at::Tensor logits, const at::Tensor& targets, const LossContext& context);

// Gradient of the logits in `type`, from what was saved.
at::Tensor cross_entropy_backward(at::Tensor saved, const at::Tensor& targets,
                                  const LossContext& context, at::ScalarType type);

}  // namespace llmsim::runtime
