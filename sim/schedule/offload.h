// Offload: what one pass copies over the host link, and how much of it the device waits for.
//
//   weights      up in every pass (Zero3 fetches them as it gathers them); overlapped with compute
//                where the framework prefetches
//   gradients    down after every backward pass; where the host holds the sums of gradient
//                accumulation, up again to be added to; at the end of a step down once more in
//                fp32, or cast by the host
//   checkpoints  down in the forward pass, up in the backward pass
//
// Copies to pinned memory overlap with compute, each direction on a stream of its own, so that only
// what takes longer than compute is exposed:
//
//   exposed = waited + max(0, max(down, up) / link - compute)
//
// Copies through pageable memory and casts on the host are waited for in full.
//
// Source: ours, after ZeRO-Offload (Ren et al., USENIX ATC 2021) and the copies that frameworks
// make (strategy/framework.h).
#pragma once

#include "sim/base/quantity.h"
#include "sim/run.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// The copies of one pass.
class HostTraffic {
 public:
  // `run` must outlive the traffic.
  explicit HostTraffic(const Run& run);

  // Each adds the copies of so many bytes: of weights for the pass, of `count` gradients (`last`:
  // those of the step's last backward pass), of checkpoints.
  void weights(Bytes size);
  void gradients(double count, Bytes size, bool last);
  void checkpoints(Bytes size, bool backward);

  // Time by which the copies make a pass of `compute` longer.
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
