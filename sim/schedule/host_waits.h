// What a device waits for of its host: kernels that are not launched yet, and copies over the host link under offload.
//
// Launches.  A framework calls one kernel after the other on the host; the device executes them in that order.  With host time h
// and device time d a pass takes
//
//   t = (d^4 + h^4)^(1/4)            the longer of the two, and up to 19 % more where they are equal: the queue between them is
//                                    short of work in some places and full in others.  Source of the exponent: the two measured
//                                    studies with steps about the turn, LoRA of Qwen on A100 (6) and GPT-2 and Llama on H100
//                                    (20): median errors 2.8 and 4.7 % with 3, 3.2 and 4.6 % with 4, 4.7 and 7.0 % with 6, 5.1
//                                    and 7.8 % with the longer of the two
//   alone       wait_i = t_i - d_i   a stage of a pipeline begins each pass with an empty queue, because it has waited for its
//                                    neighbour
//   run ahead   wait = t - d         with h and d of both passes together, one queue for the whole step: calls made during a long
//                                    backward pass feed the next forward pass
//
// The host time of a pass is its kernels, the bookkeeping of 8- and 4-bit GEMMs, the hooks around units of sharded weights,
// and the bookkeeping of recomputed blocks.  Captured as a graph, a pass is one call and waits for nothing.
//
// Copies.  What one pass sends over the host link, and how much of it the device waits for:
//
//   weights      up in every pass (Zero3 fetches them as it gathers them); beside compute where the framework prefetches
//   gradients    down after every backward pass; where sums are kept on the host, up again to be added to; at the end of a step
//                once more in fp32, or cast by the host
//   checkpoints  down in the forward pass, up in the backward pass
//
// Copies to pinned memory run beside compute, each direction a stream of its own: only what is longer than compute shows,
//
//   exposed = waited + max(0, max(down, up) / link - compute)
//
// Copies through pageable memory and casts on the host are waited for.
//
// Sources: the exponent, as said above; the rest is ours, after ZeRO-Offload (Ren et al., USENIX ATC 2021) and the copies that
// frameworks make (strategy/framework.h).
#pragma once

#include "sim/cost/price.h"
#include "sim/model/transformer.h"
#include "sim/run.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// What the host calls in one pass.
struct HostCalls {
  double kernels = 0.0;
  double low_precision_gemms = 0.0;
  double units = 0.0;  // of sharded weights, each fetched and released
  double recomputed_blocks = 0.0;

  // Adds the calls of `times` passes.
  void add(const LaunchTally& launches, double times);
  Seconds time(const Framework& framework) const;
};

// Units of sharded weights in a block: one, or each module that holds weights (norms, and the four or five GEMMs of a block).
double units_per_block(const Transformer& model, const Framework& framework);

struct PassLoad {
  Seconds device{};
  Seconds host{};
};

struct LaunchWaits {
  Seconds forward{};
  Seconds backward{};
};

LaunchWaits launch_waits(const PassLoad& forward, const PassLoad& backward, bool runs_ahead);

class HostTraffic {
 public:
  // `run` must outlive the traffic.
  explicit HostTraffic(const Run& run);

  void weights(Bytes size);
  // Of `count` gradients; `last`: of the step.
  void gradients(double count, Bytes size, bool last);
  void checkpoints(Bytes size, bool backward);

  // Time that a pass of `compute` is longer for the traffic.
  Seconds exposed(Seconds compute) const;

 private:
  const HostCopies& copies_;
  bool prefetches_;
  BytesPerSecond link_;  // share of one rank, one direction
  Seconds down_{};
  Seconds up_{};
  Seconds waited_{};
};

}  // namespace llmsim::sim
