// How many parameters of each layer one rank holds, by how many ranks their states are divided, and
// how many bytes each takes; and what each stage of a pipeline consists of: its
// chunks of the model, the parameters of one rank, which of them have gradients that tensor ranks
// must sum, and the passes in flight.
#pragma once

#include <memory>
#include <vector>

#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// One block of a kind on one tensor rank, before data-parallel sharding, by layer_weights().
struct KindParameters {
  double own = 0.0;         // without its routed experts
  double replicated = 0.0;  // of which every tensor rank has the same, and the whole gradient of
  // And those of which it has a part of the gradient: router, gate of the shared experts.
  double partial = 0.0;
  double experts = 0.0;   // routed experts that this rank has
  double adapters = 0.0;  // trained values of its adapters

  double all() const { return own + experts; }
};

// Parameters on one tensor rank, before data-parallel sharding: of the model's kinds of layer, the
// tables of tokens and n-grams divided by tensor_parallel, positions and norms replicated.
struct RankParameters {
  KindTable<KindParameters> kinds{};
  double embedding = 0.0;  // table and positions, or a tied copy of it
  // Output projection and final norm; of a tied model the copy that a separate last stage holds.
  double head = 0.0;
  // Of `head` what is no table: final norm, the layers of an encoder's head, a head of labels.
  double head_layers = 0.0;
  double tower = 0.0;         // for images and audio, on the embedding's stage
  double frozen_tower = 0.0;  // the same where it does not learn
  // Of multi-token prediction what is in no block: projections and norms.
  double prediction = 0.0;
  bool predicts = false;  // the stage of the head embeds the next tokens too
  bool tied = false;      // the head on the embedding's own stage is no second copy
  bool adapted = false;   // only adapters are trained
  // Routed experts are divided over ranks of their own, and exchanged by messages of their own.
  bool experts_divided = false;

  // Weights of the embedding and the head that the chunk has.
  double embedding_and_head(const ModelChunk& chunk) const;
  double trained_embedding_and_head(const ModelChunk& chunk) const {
    if (adapted) return 0.0;
    return embedding_and_head(chunk) - (chunk.embedding ? frozen_tower : 0.0);
  }
  double read_embedding_and_head(
      ModelChunk chunk) const;                   // with a table that another chunk of the stage has
  double blocks(const ModelChunk& chunk) const;  // those of its blocks
  double adapters(const LayerCounts& blocks) const;
  double held(const ModelChunk& chunk) const;  // all its weights
  // Of which these have gradients and states, or its adapters.
  double trained(const ModelChunk& chunk) const;
  // Routed experts among the held ones, where they are divided.
  double divided_experts(const ModelChunk& chunk) const;
  double trained_divided_experts(const ModelChunk& chunk) const {
    return adapted ? 0.0 : divided_experts(chunk);
  }
  // One block of a kind: routed experts that are divided, and everything else.
  double divided_experts(std::size_t slot) const {
    return experts_divided ? kinds[slot].experts : 0.0;
  }
  double without_divided(std::size_t slot) const {
    return kinds[slot].own + (experts_divided ? 0.0 : kinds[slot].experts);
  }
  // With routed experts that are divided, or without them.
  double largest_block(bool with_divided = true) const;
};

RankParameters rank_parameters(const Transformer& model, const Strategy& strategy);

// Ranks that divide each kind of state, with n = shard_ranks():
//
//                weights   gradients   optimizer (master weights, states, main gradients)
//   None         1         1           1
//   Zero1        1         1           n
//   Zero2        1         n           n
//   Zero3, Hsdp  n         n           n
struct StateShards {
  double weights = 1.0;
  double gradients = 1.0;
  double optimizer = 1.0;
};

StateShards state_shards(const Strategy& strategy);
// Of routed experts that are divided over expert ranks: with n = expert_shard_ranks().
StateShards expert_state_shards(const Strategy& strategy);

// Parameters of a stage on one tensor rank, before data ranks share them: routed experts that are
// divided over expert ranks, and all others.
struct StageParameters {
  double shared = 0.0, experts = 0.0;

  // Of these what a rank owns where states are sharded.
  double owned(const Strategy& strategy) const {
    return shared / strategy.shard_ranks() + experts / strategy.expert_shard_ranks();
  }
  StageParameters& operator+=(const StageParameters& other) {
    shared += other.shared, experts += other.experts;
    return *this;
  }
  friend StageParameters operator*(double count, StageParameters one) {
    one.shared *= count, one.experts *= count;
    return one;
  }
};

// Those of a chunk, and those of them that have gradients.
StageParameters held_parameters(const RankParameters& rank, const ModelChunk& chunk);
StageParameters trained_parameters(const RankParameters& rank, const ModelChunk& chunk);

// Bytes per parameter of a run: the framework's storage, overridden by recipes that leave no choice
// (fp32: 4-byte weights and gradients, no master copy; frozen 4-bit weights: 0.56 bytes with their
// block scales).
ParameterStorage storage_of(const Strategy& strategy, const Framework& framework);

// Bytes of a gradient on its way between ranks, whatever holds it: 4 where gradients are reduced in
// fp32, else those of its format, no wider than activations.
double gradient_wire_bytes(const Run& run);

// Blocks between two checkpoints of full recomputation.
double checkpoint_spacing(const Strategy& strategy, const Framework& framework);

// Whether the tensor ranks divide stored block inputs that they all have.
bool divides_checkpoints(const Strategy& strategy, const Framework& framework);

// Checkpoints of one micro-batch that a rank stores for each block, in inputs of a block.
double stored_inputs_per_block(const Strategy& strategy, const Framework& framework);

// What each stage of a pipeline consists of.
class StageContents {
 public:
  // `run` must outlive the contents.
  explicit StageContents(const Run& run);
  // Of a run whose stages and parameters are known.
  StageContents(const Run& run, std::shared_ptr<const EqualStages> stages,
                const RankParameters& rank);

  const EqualStages& stages() const { return *stages_; }
  const StageLayout& layout() const { return stages_->layout(); }
  int chunks() const { return layout().chunks(); }  // of every stage
  const ModelChunk& chunk(int stage, int number) const { return stages_->chunk(stage, number); }
  const RankParameters& rank() const { return rank_; }

  // Sums over the chunks of a stage, before data-parallel sharding.
  int blocks(int stage) const { return of(stage).blocks; }
  int moe_blocks(int stage) const { return of(stage).moe_blocks; }
  const LayerCounts& of_kind(int stage) const { return of(stage).of_kind; }
  double held(int stage) const { return of(stage).held; }        // weights
  double trained(int stage) const { return of(stage).trained; }  // values with gradients and states
  // Weights of routed experts that are divided over expert ranks.
  double divided_experts(int stage) const { return of(stage).divided_experts; }

  // Forward passes through one chunk each whose activations the stage holds at once, at most.
  int chunks_in_flight(int stage) const;

 private:
  struct Sums {
    int blocks = 0, moe_blocks = 0;
    LayerCounts of_kind{};
    double held = 0.0, trained = 0.0, divided_experts = 0.0;
  };
  const Sums& of(int stage) const { return sums_[stages_->kind(stage)]; }

  const Strategy& strategy_;
  std::shared_ptr<const EqualStages> stages_;
  RankParameters rank_;
  std::vector<Sums> sums_;  // by kind of stage
};

// Values of partial gradients on the rank with shard number `shard` of every unit of `chunks`.
//
// Gradients of which every tensor rank has a part (model/parameters.h) are summed over the
// tensor ranks when the data ranks are through.  Where data ranks divide gradients or states, each
// sums what its shard has of them: a unit's parameters lie in the order of the layer's weights,
// routed experts last, those of the head with the final norm first, and a shard is an equal piece
// of them all.
double partial_gradients(const Transformer& model, const Strategy& strategy,
                         const std::vector<ModelChunk>& chunks, int shard);
// The same from its rank_parameters.
double partial_gradients(const Transformer& model, const Strategy& strategy,
                         const RankParameters& rank, const std::vector<ModelChunk>& chunks,
                         int shard);

}  // namespace llmsim::sim
