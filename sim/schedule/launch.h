// Kernel launches: how long a device waits for its host, which launches one kernel after the other.
//
// A step is launch-bound (host-bound) where the host needs longer to launch its kernels than the
// device needs to run them.  A pass with host time h and device time d takes
//
//   t = (d^4 + h^4)^(1/4)
//
// the longer of the two, and up to 19 % more where they are equal: the queue of launched kernels
// between them is then empty at some times and full at others.
//
//   alone       wait_i = t_i - d_i   a stage of a pipeline begins each pass with an empty queue,
//                                    because it has waited for its neighbour
//   run ahead   wait = t - d         h and d of both passes together: one queue for the whole step,
//                                    in which launches made during a long backward pass feed the
//                                    next forward pass
//   in step     wait = t - d + u     as alone, but the host waits for the device before each gather
//                                    (ShardedWeights::fetches_synchronise): its calls around units,
//                                    u, are hidden by no kernel
//
// The host time of a pass is that of its kernels, of the bookkeeping of 8- and 4-bit GEMMs, of the
// hooks around units of sharded weights, and of the bookkeeping of recomputed blocks.  A pass that
// is captured as a CUDA graph is one call and waits for nothing.
//
// A hook takes per_unit, and per_slice for each rank of a weight that is gathered or reduced by
// itself: lists of views and copies, one for each rank.  A unit that recomputation gathers counts
// once more.
//
// Source of the exponent: the two measured studies with steps where h and d are about equal, LoRA
// of Qwen on A100 (6 runs) and GPT-2 and Llama on H100 (20 runs).  Their median errors are 2.8 and
// 4.7 % with exponent 3, 3.2 and 4.6 % with 4, 4.7 and 7.0 % with 6, and 5.1 and 7.8 % with the
// longer of the two times.  The rest is ours, after what frameworks call (strategy/framework.h).
#pragma once

#include "sim/base/quantity.h"
#include "sim/cost/price.h"
#include "sim/model/transformer.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// What the host calls in one pass.
struct HostCalls {
  double kernels = 0.0;
  double low_precision_gemms = 0.0;
  double units = 0.0;   // of sharded weights, each fetched and released
  double slices = 0.0;  // of weights, one for each rank that shares them
  double recomputed_blocks = 0.0;
  double moe_blocks = 0.0;
  double gradients = 0.0;  // tensors whose gradients go to a bucket

  // Adds the kernels of `times` passes.
  void add(const LaunchTally& launches, double times);
  // Host time around units of sharded weights, and of everything else.
  Seconds unit_time(const Framework& framework) const;
  Seconds launch_time(const Framework& framework) const;
  Seconds time(const Framework& framework) const {
    return unit_time(framework) + launch_time(framework);
  }
};

// Units of sharded weights in a block: as many as the framework wraps, or one for each module that
// holds weights (the norms, and the four or five linear layers of a block).
double units_per_block(const Transformer& model, const Framework& framework);

// Slices of a block's weight matrices: where modules are units, each matrix is gathered by itself
// and has a slice on each of `ranks` ranks; 0 elsewhere.
double slices_per_block(const Transformer& model, const Framework& framework, int ranks);

// Whether the units of a recomputed block are gathered for the recomputation too.
bool fetches_recomputed(const ShardedWeights& sharded);

// Device time and host time of one pass.
struct PassLoad {
  Seconds device{};
  Seconds host{};    // of calls that kernels can hide
  Seconds around{};  // of calls that nothing hides: those around units
};

struct LaunchWaits {
  Seconds forward{};
  Seconds backward{};
};

// How long a forward and a backward pass wait for the host, by the formulas above; `runs_ahead`:
// one queue for the whole step.
LaunchWaits launch_waits(const PassLoad& forward, const PassLoad& backward, bool runs_ahead);

}  // namespace llmsim::sim
