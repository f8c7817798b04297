// What lives in the memory of a node's host: what a run offloads, and whole models while ranks load them.
//
// Bytes of one rank, of its stage with most:
//
//   optimizer     master weights, states, fp32 gradients for the update, and the sums of 16-bit gradients where they live there;
//                 divided by the shard ranks
//   parameters    the weights, divided by the shard ranks under Zero3
//   activations   checkpoints of the micro-batches in flight, but for two blocks
//   load          the whole model on one tensor rank, where each process makes it before it is sharded (host_load_bytes)
//
// The load comes before the rest: the larger of the two counts, times the devices on a node.
#pragma once

#include <vector>

#include "sim/cost/layer_prices.h"
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

}  // namespace llmsim::sim
