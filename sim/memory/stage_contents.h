// What each stage of a pipeline consists of: its chunks of the model, the parameters of one rank,
// which of them have gradients that tensor ranks must sum, and the passes in flight.
//
// Gradients of which every tensor rank has a part (model/layer_weights.h) are summed over the
// tensor ranks when the data ranks are through.  Where data ranks divide gradients or states, each
// sums what its shard has of them: a unit's parameters lie in the order of the layer's weights,
// routed experts last, those of the head with the final norm first, and a shard is an equal piece
// of them all.
#pragma once

#include <vector>

#include "sim/memory/shards.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

class StageContents {
 public:
  // `strategy` must outlive the contents.
  StageContents(const Transformer& model, const Strategy& strategy);

  int chunks() const { return layout_.chunks(); }  // of every stage
  const ModelChunk& part(int stage, int chunk) const {
    return parts_[static_cast<std::size_t>(layout_.part(stage, chunk))];
  }
  const RankParameters& rank() const { return rank_; }

  // Sums over the chunks of a stage, before data-parallel sharding.
  int blocks(int stage) const;
  int moe_blocks(int stage) const;
  double held(int stage) const;     // weights
  double trained(int stage) const;  // values with gradients and states
  double apart(int stage) const;    // weights of routed experts that are divided over expert ranks

  // Forward passes through one chunk each whose activations the stage holds at once, at most.
  int chunks_in_flight(int stage) const;

 private:
  const Strategy& strategy_;
  StageLayout layout_;
  std::vector<ModelChunk> parts_;
  RankParameters rank_;
};

// Values of partial gradients on the rank with shard number `shard` of every unit of `parts`.
double partial_gradients(const Transformer& model, const Strategy& strategy,
                         const std::vector<ModelChunk>& parts, int shard);

}  // namespace llmsim::sim
