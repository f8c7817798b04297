// The output projection and the cross entropy, plain or fused.
//
// Logits (t, V/n) of t tokens and a vocabulary of V over n tensor ranks are made in the activation
// format and upcast to fp32 by most frameworks; what lives while the loss is computed stands in
// dataflow.h.
// Over tensor ranks three values for each token are all-reduced, chunk by chunk.
// A chunk of Gradient and of Recomputed reads the head's weights for its logits and for the
// gradient of its input, Recomputed for its logits twice, and reads and writes the whole gradient
// of them: a small chunk is bound by memory.  Autograd scales the gradients that waited (read and
// write); frameworks without it need not. Sources: efficient_cross_entropy (Malek), Liger-Kernel
// fused_linear_cross_entropy, torchtune CEWithChunkedOutputLoss; Megatron Core
// fusions/fused_cross_entropy.py (calculate_logits_max, calculate_predicted_logits).
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// The head's GEMMs and the loss of `tokens` tokens on one tensor rank.
LayerOperators lower_loss(const Transformer& model, const Strategy& strategy,
                          const Framework& framework, std::int64_t tokens);

// Chunks into which a fused cross entropy divides `tokens`: the framework's number, or
// Liger-Kernel's rule: ceil(t / 2^k) chunks, 2^k the smallest power of two of at least t / ceil(V /
// h) tokens, so that a chunk's logits are about as large as its whole input.
std::int64_t loss_chunks(const Transformer& model, const Framework& framework, std::int64_t tokens);

}  // namespace llmsim::sim
