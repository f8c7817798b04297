// Exact parameter counts, by part.
#pragma once

#include <cstdint>

#include "sim/model/transformer.h"

namespace llmsim::sim {

// Parameters of one block (one transformer layer).
struct BlockParameters {
  std::int64_t attention = 0;  // q, k, v and output projections, their biases, qk-norm, sinks
  std::int64_t mlp = 0;        // dense MLP, or shared experts (with their gate) of an MoE model
  std::int64_t experts = 0;    // routed experts of an MoE model, all of them
  std::int64_t router = 0;
  std::int64_t norms = 0;

  std::int64_t total() const { return attention + mlp + experts + router + norms; }
};

// Parameters of the whole model.  Tied embeddings count once, in `embedding`.
struct Parameters {
  std::int64_t embedding = 0;  // vocab_size * hidden_size
  std::int64_t positions = 0;  // learned position table, and an encoder's table of segments
  std::int64_t attention = 0;
  std::int64_t mlp = 0;
  std::int64_t experts = 0;
  std::int64_t router = 0;
  std::int64_t norms = 0;     // of the blocks, the embedding norm and the final norm
  std::int64_t head = 0;      // 0 if tied, but for the layers of an encoder's head
  std::int64_t mtp = 0;       // multi-token-prediction layers with their projection and norms
  std::int64_t inactive = 0;  // routed-expert parameters that a token does not visit

  std::int64_t total() const {
    return embedding + positions + attention + mlp + experts + router + norms + head + mtp;
  }
  std::int64_t active() const { return total() - inactive; }
  std::int64_t without_embedding() const { return total() - embedding - positions; }
};

// Parameters of layer `layer` (from 0): the sums of layer_weights.h.
BlockParameters block_parameters(const Transformer& model, int layer);

// What an encoder has between its last layer and the projection to the vocabulary, and its
// classifier of sentences:
//
//   (h^2 + h) + norm      and with next_sentence   (h^2 + h) + (2 h + 2)
//
// 0 of a decoder.  Part of `head` also where the projection is tied.
std::int64_t encoder_head_parameters(const Transformer& model);

// Weight and bias of one norm over the hidden size.
std::int64_t norm_parameters(const Transformer& model);

// What stands before the first and after the last layer: embedding, positions, norms and head.
Parameters parameters_of_ends(const Transformer& model);

// Parameters of the model.  Equals the published integer for every model of the catalogue.
Parameters parameters(const Transformer& model);

}  // namespace llmsim::sim
