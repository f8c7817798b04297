// Compute and communication of one pass over a stage's blocks, as events on two streams.
//
// Gathering pass (forward, or backward of sharded weights): block i computes after its weights have arrived; the gather of block
// i + 1 starts when the gather of block i is done and, with prefetch, at the earliest when block i starts (one block ahead).
// Reducing pass (backward): the reduction of block i starts when its gradients exist and the stream is free.
//
//   compute   c_0        c_1        c_2
//   stream       g_1        g_2
//
// The exposed time is what the pass takes beyond its compute alone.
#pragma once

#include <span>

#include "sim/base/quantity.h"

namespace llmsim::sim {

// One block of a pass.
struct OverlapBlock {
  Seconds gather{};  // weights that must arrive before compute
  Seconds compute{};
  Seconds reduce{};  // gradients to send after compute
};

// When both streams have finished.  Runs the blocks in order.  Without `prefetch` a gather starts when the block before has
// computed; without `overlap` everything runs one after the other.
Seconds overlap_end(std::span<const OverlapBlock> blocks, bool prefetch, bool overlap);

}  // namespace llmsim::sim
