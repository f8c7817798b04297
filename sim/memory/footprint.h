// What lives in device memory, and when: the peak of every pipeline stage and the terms behind it.
//
// Five instants can be the peak:
//
//   load        stacks that put the whole model on each device before they shard it
//   loss        everything kept from the forward passes in flight, and the logits with their copies and gradient
//   backward    what is kept, what recomputation brings back for the first block of the backward pass, and its activation
//   gradients gradients   all gradients exist, the last block's activations are still there update      optimizer temporaries on
//   top of the states
//
// Each is the sum of: weights, gradients, master weights, optimizer states (divided by the shard ranks as the sharding says),
// gathered weights of the blocks at hand (Zero3), activations (kept bytes of a block x blocks x micro-batches in flight), logits,
// working space and the framework's own buffers.  Bytes per parameter come from the stack, bytes per token from the operators'
// `saved`.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"

namespace llmsim::sim {

struct MemoryTerm {
  const char* name = "";
  Bytes size{};
};

// Memory of the devices of one pipeline stage at the instant of its peak.
struct StageMemory {
  int stage = 0;
  const char* instant = "";         // "load", "loss", "backward", "gradients", "update"
  Bytes peak{};                     // sum of the terms: what the framework's allocator holds
  std::vector<MemoryTerm> terms{};  // "weights", "gradients", "optimizer_states", "activations", "logits", ...
};

struct Memory {
  Bytes peak{};      // largest stage, allocated
  Bytes reserved{};  // with the allocator's fragmentation
  Bytes device{};    // with the driver context: what nvidia-smi shows
  Bytes capacity{};  // usable memory of a device
  Bytes host{};      // host memory per device under offload
  std::vector<StageMemory> stages;

  // Whether the largest stage and the driver context fit.  An allocator that runs full gives back whole cached blocks, about half
  // of what it holds beyond the peak; the rest is lost to splits.
  bool fits() const { return needed() <= capacity; }
  Bytes needed() const { return 0.5 * (peak + reserved) + context; }
  Bytes context{};  // driver context and libraries
};

// Peak of each stage with its terms.
Memory memory_footprint(const Run& run, const LayerPrices& prices);

}  // namespace llmsim::sim
