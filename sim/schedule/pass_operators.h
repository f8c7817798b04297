// The operators of one pass of a model chunk, one after the other, each with its price: which
// GEMMs, kernels and collectives a pass consists of.
//
// The times of a chunk's operators add up to the compute and the exposed collectives of its pass
// (passes.h) where all layers have the same kind of attention window; layers that differ are priced
// at the mean of both, as in cost/layer_prices.h.
//
// The order is that of the blocks as they are lowered (operators/block.h), and otherwise ours.
#pragma once

#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/pipeline/pipeline.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// In the order in which they run: the embedding, the layers, the head; backward the other way
// round, each layer after what of it is recomputed.  `prices`: of layers_with_operators().
std::vector<PricedOperator> pass_operators(const Run& run, const LayerPrices& prices,
                                           const ModelChunk& chunk, PassKind pass);

// An operator of one of two joined passes (pipeline.h).
struct JoinedOperator {
  PricedOperator op;
  bool backward = false;  // of the backward pass
};

// The operators of both passes, merged by how far either pass has come.  Each has its share of the
// exposed time of the pass's all-to-alls, or of the slowdown of its compute.
std::vector<JoinedOperator> joined_operators(std::vector<PricedOperator> forward,
                                             std::vector<PricedOperator> backward,
                                             const ChunkTimes& forward_times,
                                             const ChunkTimes& backward_times, double loss);

}  // namespace llmsim::sim
