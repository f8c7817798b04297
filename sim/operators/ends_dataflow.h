// The tensors of what stands before the first block and after the last (dataflow.h), for one
// micro-batch on one rank.
//
// Embedding: gives the residual stream; with sequence parallelism each rank sums whole rows and
// keeps its part.  Tensor ranks have the ids of their own rows of the table, and a flag for each
// token.
//
// Head: the norm, the logits of this rank's columns, and the loss (loss.h).  Of t tokens and V/n
// columns, e bytes an activation:
//
//   plain, fp32 logits   logits t V/n e, and k - 1 fp32 copies from the forward pass, one more in
//                        the backward pass, whose cast replaces the logits
//   plain, 16-bit        logits; their gradient is another tensor, or replaces them
//   Kernel               t V/n (e + 8): the fp32 copy that one of its kernels makes, and what the
//                        next makes of it
//   Logits               forward t V/n (e + 8 / c), c chunks of tokens: fp32 copies are of one
//                        chunk; backward t V/n 2 e, logits and their gradient
//   Recomputed           t V/n (e + 4 k) / c, and the head's gradient twice: of a chunk and the sum
//   Gradient             t V/n (2 e + 4) / c, or t V/n e / c in fp32, and the gradients of the head
//                        (V/n h e) and of its input (t h e), which wait for backward; V/n h e of
//                        the weights where the framework casts them
//
// The head of an encoder (ends.h) works on predicted tokens.  Multi-token prediction repeats the
// head.
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/dataflow.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// `framework`: as it runs under the strategy (effective_framework).
Dataflow embedding_dataflow(const Transformer& model, const Strategy& strategy,
                            const Framework& framework);
Dataflow head_dataflow(const Transformer& model, const Strategy& strategy,
                       const Framework& framework);

}  // namespace llmsim::sim
