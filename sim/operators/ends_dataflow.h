// The tensors of what stands before the first block and after the last (dataflow.h), for one micro-batch on one rank.
//
// Embedding: gives the residual stream; with sequence parallelism each rank sums whole rows and keeps its part.  Tensor ranks
// have the ids of their own rows of the table, and a flag for each token.
//
// Head: the norm, the logits of this rank's columns, and the loss (loss.h).  Of t tokens and V/n columns, e bytes an activation:
//
//   plain, fp32 logits   logits t V/n e, and k - 1 fp32 copies from the forward pass, one more in the backward pass, whose cast
//                        replaces the logits
//   plain, 16-bit        logits; their gradient is another tensor, or replaces them
//   fused                what loss.h states: chunks of logits while the loss is made; gradients that wait for the backward pass
//
// The head of an encoder is encoder_head.h's, and works on predicted tokens.  Multi-token prediction repeats the head.
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/dataflow.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// `framework`: as it runs under the strategy (effective_framework).
Dataflow embedding_dataflow(const Transformer& model, const Strategy& strategy, const Framework& framework);
Dataflow head_dataflow(const Transformer& model, const Strategy& strategy, const Framework& framework);

}  // namespace llmsim::sim
