// The embedding before the first block of a model, and the LM head and the loss after the last.
//
// Embedding: a lookup of t rows and no GEMM.  Head: final norm, logits (t, V/n, h), cross entropy
// over V/n.  Over tensor ranks the output of the lookup is summed; with sequence parallelism the
// head's input is gathered, in the backward pass again (unless the loss has made its gradients by
// then), and the gradient of the lookup too.  The head's GEMMs and the loss, plain or fused,
// are in loss.h.
//
// The head of an encoder has layers in place of the norm, and logits of the predicted tokens only:
// of t tokens the p that are predicted are picked; their states pass a dense layer (h, h), its
// activation and a norm, and only then the projection to the vocabulary.  With next_sentence the
// first token of each of the b sequences passes a pooler (h, h), a tanh and a layer of two classes:
//
//   2 p h^2 + b (2 h^2 + 4 h) FLOP forward, twice that backward
//
// Every tensor rank does the same (Megatron-LM's BertLMHead and Pooler are not divided).
//
// A head of labels is a GEMM of this rank's own tokens, or behind an encoder's pooler of the first
// of each sequence, and a loss of these few logits; without labels there is none.
// Source: Devlin et al. 2018, arXiv 1810.04805, section 3.1.
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/layer_graph.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// For one micro-batch on one rank.  `framework`: as it runs under the
// strategy (effective_framework).  `lists_tower_layers`: with the operators of each layer of the
// towers for images and audio (tower.h), which its memory has in any case.
LayerGraph lower_embedding(const Transformer& model, const Strategy& strategy,
                           const Framework& framework, bool lists_tower_layers = true);
// Multi-token prediction repeats the head.
LayerGraph lower_head(const Transformer& model, const Strategy& strategy,
                      const Framework& framework);

// Those of `tokens` tokens whose logits are made, at least one.
std::int64_t predicted_of(const Transformer& model, std::int64_t tokens);

}  // namespace llmsim::sim
