// The two ends of the model as operators: the embedding before the first block, the head and the loss after the last.
//
// Embedding: a lookup of t rows and no GEMM.  Head: final norm, logits (t, V/n, h), cross entropy over V/n.
// Logits are made in the activation format, upcast to fp32 by most stacks, and their gradient replaces them; all three live at
// once:
//
//   naive    t V/n (e + 4 c) bytes, c fp32 copies        fused    logits of one chunk of tokens at a time
//
// A fused (chunked) loss computes the head's gradients chunk by chunk in the forward pass: no logits survive.
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/stack.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

struct EndOperators {
  OperatorList forward;
  OperatorList backward;
  Bytes saved;    // per micro-batch in flight
  Bytes working;  // while the loss is computed: logits, their fp32 copy and gradient
};

EndOperators lower_embedding(const Transformer& model, const Strategy& strategy, const Stack& stack);
EndOperators lower_head(const Transformer& model, const Strategy& strategy, const Stack& stack);

// Chunks into which a fused cross entropy divides the tokens of a micro-batch: as many as make a chunk's logits as large as the
// hidden states, V / h, and at least 8.  Source: the chunking rule of Liger-Kernel's fused linear cross entropy.
double cross_entropy_chunks(const Transformer& model);

}  // namespace llmsim::sim
