// What lives in the memory of a node's host: what a run offloads, and whole models while ranks load
// them.
//
// Bytes of one rank, of its stage with most:
//
//   optimizer     master weights, states, fp32 gradients for the update, and the sums of 16-bit
//                 gradients where they live there; divided by the shard ranks
//   parameters    the weights, divided by the shard ranks under Zero3
//   activations   of the blocks in flight at the peak all but two, the one at hand and the one on
//                 its way, each with
//                   checkpoints, whole blocks   what it saves, of as many blocks of a stage as the
//                                               strategy says
//                   modules                     the inputs of the modules
//   load          the whole model on one tensor rank, where each process makes it before it is
//                 sharded (host_load_bytes)
//
// The load comes before the rest: the larger of the two counts, times the devices on a node.
// Source: ours; DeepSpeed's ZeRO-Offload, Megatron-LM's and this project's offload of activations.
#pragma once

#include "sim/cost/layer_prices.h"
#include "sim/memory/stage_contents.h"
#include "sim/run.h"

namespace llmsim::sim {

struct HostMemory {
  Bytes device{};    // one rank's
  Bytes node{};      // all ranks of a node
  Bytes capacity{};  // of a node; 0: unknown
  bool loading = false;

  bool fits() const { return capacity <= Bytes(0.0) || node <= capacity; }
};

HostMemory host_memory(const Run& run, const LayerPrices& prices);

// Blocks of a part of the model that offload activations, of a strategy that does.
double offloading_blocks(const Strategy& strategy, int blocks);

// What one of them sends to the host for each micro-batch.
Bytes offloaded_by_block(const Run& run, const BlockPrice& block);

Bytes offloaded_activations(const Run& run, const LayerPrices& prices,
                            const StageContents& contents, int stage);

}  // namespace llmsim::sim
