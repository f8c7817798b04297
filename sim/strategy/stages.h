// How the layers of a model are dealt to pipeline stages, and what a stage hands to the next.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// One contiguous part of the model: a chunk of a stage.
struct ModelPart {
  int blocks = 0;  // those of multi-token prediction included
  bool embedding = false;
  bool head = false;
  bool meets_embedding = false;  // has the head, and another part of the same stage the embedding
  int moe_blocks = 0;            // of the blocks: those with experts
  int first_layer = 0;           // of the model

  int dense_blocks() const { return blocks - moe_blocks; }
  // Whether the stage has the embedding's table where this part's head is.
  bool has_table() const { return embedding || meets_embedding; }
  // Whether two parts have the same work, wherever they are.
  bool operator==(const ModelPart& other) const {
    return blocks == other.blocks && embedding == other.embedding && head == other.head &&
           meets_embedding == other.meets_embedding && moe_blocks == other.moe_blocks;
  }
};

// All parts in model order: pipeline_parallel * virtual_stages (stage_layout.h).
// Layers are dealt evenly; a remainder goes one each to the parts in the middle first, because the ends also carry the embedding
// and the head.  With embeddings_as_layers those two count as one layer each.  Multi-token-prediction layers belong to the last
// part, and each counts as two (its head is as long as a block), the head as one; so does Megatron-LM's layout of DeepSeek-V3, 4
// layers in each of 16 parts and 1 in the last.
// With `stage_layers` a stage has as many as that says, over its parts as evenly as they go, or each part as many;
// multi-token-prediction layers come on top of those of the last part.
std::vector<ModelPart> model_parts(const Transformer& model, const Strategy& strategy);

// Those of one stage, chunk after chunk.
std::vector<ModelPart> stage_parts(const Transformer& model, const Strategy& strategy, int stage);

// Where in them chunk `chunk` of a stage is.
std::size_t part_index(const Strategy& strategy, int stage, int chunk);

// The residual stream of one micro-batch on one rank, divided over the tensor ranks with sequence parallelism.
Bytes stage_output(const Transformer& model, const Strategy& strategy);

}  // namespace llmsim::sim
