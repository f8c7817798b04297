#include "sim/schedule/offload.h"

#include <algorithm>
#include <optional>

namespace llmsim::sim {

HostTraffic::HostTraffic(const Run& run)
    : copies_(run.framework.host_copies),
      prefetches_(run.framework.sharded.prefetch_units > 0),
      link_(run.cluster.host_link_share()) {}

void HostTraffic::weights(Bytes size) { (prefetches_ ? up_ : waited_) += size / link_; }

void HostTraffic::gradients(double count, Bytes size, bool last) {
  down_ += size / link_;
  if (copies_.gradients_return) up_ += size / link_;
  if (!last) return;
  down_ += Bytes(count * copies_.last_gradient_bytes) / link_;
  if (copies_.casts_gradients) waited_ += count * copies_.gradient_cast;
}

void HostTraffic::checkpoints(Bytes size, bool backward) {
  const std::optional<BytesPerSecond>& pageable =
      backward ? copies_.checkpoints_up : copies_.checkpoints_down;
  if (pageable)
    waited_ += size / *pageable;
  else
    (backward ? up_ : down_) += size / link_;
}

Seconds HostTraffic::exposed(Seconds compute) const {
  return waited_ + std::max(Seconds(0.0), std::max(down_, up_) - compute);
}

}  // namespace llmsim::sim
