#include "sim/schedule/host_waits.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
namespace {

// What the pass takes beyond its device time.
Seconds lack(const PassLoad& pass) {
  const double d = pass.device.value(), h = pass.host.value();
  if (h <= 0.0) return Seconds(0.0);
  const double fourth = d * d * d * d + h * h * h * h;
  return std::max(Seconds(0.0), Seconds(std::sqrt(std::sqrt(fourth)) - d));
}

}  // namespace

void HostCalls::add(const LaunchTally& launches, double times) {
  kernels += times * launches.kernels;
  low_precision_gemms += times * launches.low_precision_gemms;
}

Seconds HostCalls::time(const Framework& framework) const {
  return kernels * framework.host.per_kernel + low_precision_gemms * framework.host.per_low_precision_gemm +
         units * framework.host.per_unit + recomputed_blocks * framework.host.per_recomputed_block;
}

double units_per_block(const Transformer& model, const Framework& framework) {
  if (!framework.sharded.modules_are_units) return 1.0;
  return model.norms_per_layer + (model.gated_mlp ? 5.0 : 4.0);
}

LaunchWaits launch_waits(const PassLoad& forward, const PassLoad& backward, bool runs_ahead) {
  const LaunchWaits alone{.forward = lack(forward), .backward = lack(backward)};
  const Seconds both = alone.forward + alone.backward;
  if (!runs_ahead || both == Seconds(0.0)) return alone;
  const double share = lack({forward.device + backward.device, forward.host + backward.host}) / both;
  return {.forward = share * alone.forward, .backward = share * alone.backward};
}

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
  waited_ += count * copies_.gradient_cast;
}

void HostTraffic::checkpoints(Bytes size, bool backward) {
  const std::optional<BytesPerSecond>& pageable = backward ? copies_.checkpoints_up : copies_.checkpoints_down;
  if (pageable)
    waited_ += size / *pageable;
  else
    (backward ? up_ : down_) += size / link_;
}

Seconds HostTraffic::exposed(Seconds compute) const { return waited_ + std::max(Seconds(0.0), std::max(down_, up_) - compute); }

}  // namespace llmsim::sim
