// The layers of model chunks and what their passes allocate, worked out once for chunks that are
// equal: of the stages of a run, and of the pipelines of a search under one mesh and sharding.
#pragma once

#include <memory>
#include <tuple>

#include "sim/cost/chunk_table.h"
#include "sim/memory/chunk_layers.h"
#include "sim/memory/chunk_passes.h"
#include "sim/memory/peak_tensors.h"

namespace llmsim::sim {

class ChunkMemory {
 public:
  ChunkMemory(const Run& run, const LayerPrices& prices, const RankParameters& rank,
              const ModelChunk& chunk);
  ChunkMemory(const ChunkMemory&) = delete;

  const ChunkLayers& layers() const { return layers_; }
  Bytes offloaded() const { return offloaded_; }  // of a micro-batch, to the host and back
  // What gradients of the weights need when those of the data are made.
  Bytes weight_inputs() const { return weight_inputs_; }

  // From here on its passes are those of a stage with these rules.
  void use(const PassRules& rules);
  template <class Amount>
  ChunkPasses<Amount>& passes() {
    auto& passes = std::get<std::unique_ptr<ChunkPasses<Amount>>>(passes_);
    if (!passes) passes = std::make_unique<ChunkPasses<Amount>>(layers_, rules_);
    return *passes;
  }

 private:
  ChunkLayers layers_;
  PassRules rules_{};
  Bytes offloaded_, weight_inputs_;
  std::tuple<std::unique_ptr<ChunkPasses<double>>, std::unique_ptr<ChunkPasses<MemoryTerms>>,
             std::unique_ptr<ChunkPasses<TensorAmounts>>>
      passes_;
};

class SharedChunks {
 public:
  // `run` and `rank` must outlive it.
  SharedChunks(const Run& run, const RankParameters& rank) : run_(run), rank_(rank) {}
  SharedChunks(const SharedChunks&) = delete;

  // Of the run's pipeline and recomputation as they are now, with their prices.
  ChunkMemory& of(const LayerPrices& prices, const ModelChunk& chunk);

 private:
  const Run& run_;
  const RankParameters& rank_;
  ChunkTable<std::unique_ptr<ChunkMemory>> chunks_;
};

}  // namespace llmsim::sim
