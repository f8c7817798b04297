// The layers of a chunk of a pipeline stage, and the units of sharded weights around them, as a
// pass finds them (chunk_passes.h).
//
// A unit is the embedding, a block or the head; routed experts that fewer ranks share are a unit of
// their own next to their block's.  Of P parameters that n ranks share, padded to them, with e
// bytes for an operand of a GEMM and g for a gradient:
//
//   whole       n ceil(P / n) e    weights as the GEMMs read them
//   sent        ceil(P / n) e      this rank's shard of them, where it is stored in another format
//   gradients   n ceil(P / n) g    whole
//
// A block under full recomputation stores less than it saves, and needs more:
//
//   stored_less   (1 - checkpoints that a rank stores for each block) * residual, + what goes to
//                 the host
//   rerun_before  blocks between it and the checkpoint before it * everything that a block saves:
//                 they are written again together
//
// Under autocast (runs_autocast) a layer of P parameters that are not sharded has P e bytes of
// 16-bit weights from its forward pass to its backward pass; a recomputed one to the end of the
// forward pass, and again in its backward pass.
//
// Source: ours; PyTorch FSDP's FlatParameter, DeepSpeed's partitioned
// checkpoints, runtime/parallel/data_parallel.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/shards.h"
#include "sim/run.h"

namespace llmsim::sim {

// What happens to units, by the sharding and the framework.
struct UnitRules {
  // After the pass of their layer; else a constant number of them is there (stage_bytes.h).
  bool freed = false;
  bool shards_weights = false;
  bool shards_gradients = false;
  bool stay_whole = false;                // from a forward pass to its backward pass
  bool gathered_once = false;             // from the first forward to the last backward pass
  bool reduced_every_microbatch = false;  // their gradients
  int ahead = 0;                          // units whose gather begins before the one at hand

  bool operator==(const UnitRules&) const = default;
  // Whether what is whole is counted unit by unit.
  bool counted() const { return freed && (shards_weights || shards_gradients); }
  // Whether whole gradients are reduced after a backward pass, the `last` one of a chunk or an
  // earlier one; else micro-batches add to them.
  bool reduces(bool last) const { return last || reduced_every_microbatch; }
  // Whether a backward pass is the first of a step that leaves a rank its own gradients.
  bool leaves_own_gradients(bool first, bool last) const {
    return shards_gradients && !reduced_every_microbatch ? last : first;
  }
  // Whether a unit is freed when the pass of its layer ends.
  bool frees_after_forward() const { return !stay_whole && !gathered_once; }
  bool frees_after_backward(bool last) const { return !gathered_once || last; }
};

UnitRules unit_rules(const Strategy& strategy, const Framework& framework);

struct Unit {
  Bytes whole{};
  Bytes sent{};
  Bytes gradients{};
};

// Of a layer.
struct Units {
  Unit shared{};   // by all ranks
  Unit experts{};  // routed, where fewer ranks share them
  Bytes gradients() const { return shared.gradients + experts.gradients; }
};

enum class UnitKind { Embedding, Block, Head };

struct Layer {
  UnitKind kind = UnitKind::Block;
  const LayerMemory* memory = nullptr;  // of the prices
  Bytes stored_less{};
  Bytes rerun_before{};
  Bytes cast_weights{};
  bool casts_stay = true;  // from the forward to the backward pass
  Units units{};
  bool divides_experts = false;  // has units of experts
};

// The layers in model order; equal ones are one Layer.
class ChunkLayers {
 public:
  ChunkLayers(const ModelChunk& chunk, bool tied)
      : model_chunk_(chunk), shares_table_(tied && chunk.embedding && chunk.head) {
    order_.reserve(static_cast<std::size_t>(chunk.blocks) + 2);
  }

  // Block `index` of the chunk, or kNoLayer, kLossLayer (memory_account.h).
  void add(const Layer& layer, int index);
  void add_again(std::size_t kind, int index);  // one that was added before: kinds()[kind]

  int size() const { return static_cast<int>(order_.size()); }
  const Layer& operator[](int place) const {
    return kinds_[order_[static_cast<std::size_t>(place)].kind];
  }
  int index(int place) const { return order_[static_cast<std::size_t>(place)].index; }
  const Layer& front() const { return (*this)[0]; }
  const std::vector<Layer>& kinds() const { return kinds_; }

  // That divide experts.
  int expert_layers() const { return static_cast<int>(with_experts_.size()); }
  const Layer& expert_layer(int place) const {
    return kinds_[with_experts_[static_cast<std::size_t>(place)]];
  }

  const ModelChunk& model_chunk() const { return model_chunk_; }
  bool shares_table() const { return shares_table_; }  // the head has the embedding's

 private:
  struct Place {
    std::uint16_t kind;
    int index;
  };
  ModelChunk model_chunk_;
  bool shares_table_;
  std::vector<Layer> kinds_;
  std::vector<Place> order_;
  std::vector<std::uint16_t> with_experts_;
};

// Blocks of a model chunk that offload activations, of a strategy that does.
double offloading_blocks(const Strategy& strategy, int blocks);

// What one of them sends to the host for each micro-batch.
Bytes offloaded_by_block(const Run& run, const BlockPrice& block);

// `prices` must outlive the chunk.
ChunkLayers chunk_layers(const Run& run, const LayerPrices& prices, const RankParameters& rank,
                         const ModelChunk& chunk);

// Bytes that a micro-batch sends to the host, and takes back from there.
Bytes offloaded_bytes(const Run& run, const ChunkLayers& layers);

}  // namespace llmsim::sim
