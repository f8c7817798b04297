// What one pass sends over the host link under offload, and how much of it the device waits for.
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
#pragma once

#include "sim/run.h"

namespace llmsim::sim {

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
