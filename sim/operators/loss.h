// The output projection and the cross entropy, plain or fused.
//
// Logits (t, V/n) of t tokens and a vocabulary of V over n tensor ranks are made in the activation
// format and upcast to fp32 by most frameworks.  Over tensor ranks three values for each token are
// all-reduced, chunk by chunk.
//
// What lives while the loss is computed, e bytes an activation:
//
//   plain, fp32 logits   logits t V/n e, and k - 1 fp32 copies from the forward pass, one more in
//                        the backward pass, whose cast replaces the logits
//   plain, 16-bit        logits; their gradient is another tensor, or replaces them
//   Kernel               t V/n (e + 8): the fp32 copy that one of its kernels makes, and what the
//                        next makes of it; where the gradient is written over the logits e + 4,
//                        and e without an fp32 copy
//   Logits               forward t V/n (e + 8 / c), c chunks of tokens: fp32 copies are of one
//                        chunk; backward t V/n 2 e, logits and their gradient
//   Recomputed           t V/n (e + 4 k) / c, and the head's gradient twice: of a chunk and the sum
//   Gradient             t V/n (2 e + 4) / c, or t V/n e / c in fp32, and the gradients of the head
//                        (V/n h e) and of its input (t h e), which wait for backward; V/n h e of
//                        the weights where the framework casts them
//
// A chunk of Gradient and of Recomputed reads the head's weights for its logits and for the
// gradient of its input, Recomputed for its logits twice, and reads and writes the whole gradient
// of them: a small chunk is bound by memory.  Autograd scales the gradients that waited (read and
// write); frameworks without it need not.  Sources: efficient_cross_entropy (Malek), Liger-Kernel
// fused_linear_cross_entropy, torchtune CEWithChunkedOutputLoss; Megatron Core
// fusions/fused_cross_entropy.py (calculate_logits_max, calculate_predicted_logits).
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/layer_builder.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// Of a token whose rank has a share of the vocabulary: the id, and whether it is in the share.
inline constexpr double kTokenIdBytes = 8.0, kFlagBytes = 1.0;

// The head's GEMMs and the loss of `tokens` tokens on one tensor rank; `shared`: the collectives of
// the head's input.
void add_loss(LayerBuilder& layer, TensorId normed, std::int64_t tokens, const SharedInput& shared);

// Chunks into which a fused cross entropy divides `tokens`: the framework's number, or
// Liger-Kernel's rule: ceil(t / 2^k) chunks, 2^k the smallest power of two of at least t / ceil(V /
// h) tokens, so that a chunk's logits are about as large as its whole input.
std::int64_t loss_chunks(const Transformer& model, const Framework& framework, std::int64_t tokens);

}  // namespace llmsim::sim
