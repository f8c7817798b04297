// Activations that a stage has on the host at the peak: of the blocks in flight all but two, the one at hand and the one on its
// way.
//
//   checkpoints, whole blocks   max(0, blocks in flight - 2) * saved, of `blocks` of each stage where the strategy says so
//   modules                     max(0, blocks in flight - 2) * inputs of the modules
#pragma once

#include "sim/cost/layer_prices.h"
#include "sim/memory/stage_contents.h"
#include "sim/run.h"

namespace llmsim::sim {

// Blocks of a part of the model that offload activations, of a strategy that does.
double offloading_blocks(const Strategy& strategy, int blocks);

// What one of them sends to the host for each micro-batch.
Bytes offloaded_by_block(const Run& run, const BlockPrice& block);

Bytes offloaded_activations(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage);

}  // namespace llmsim::sim
