// What an encoder has between its last layer and the logits, as operators of one rank, and its
// classifier of sentences.
//
// Of t tokens the p that are predicted are picked; their states pass a dense layer (h, h), its
// activation and a norm, and only then the projection to the vocabulary.  With next_sentence the
// first token of each of the b sequences passes a pooler (h, h), a tanh and a layer of two classes:
//
//   2 p h^2 + b (2 h^2 + 4 h) FLOP forward, twice that backward
//
// Every tensor rank does the same (Megatron-LM's BertLMHead and Pooler are not divided).
// Source: Devlin et al. 2018, arXiv 1810.04805, section 3.1.
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Those of `tokens` tokens whose logits are made, at least one.
std::int64_t predicted_of(const Transformer& model, std::int64_t tokens);

// Requires model.encoder; `tokens` of micro_batch sequences are on this rank.
LayerOperators lower_encoder_head(const Transformer& model, const Strategy& strategy,
                                  const Framework& framework, std::int64_t tokens);

}  // namespace llmsim::sim
