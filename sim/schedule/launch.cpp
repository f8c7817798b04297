#include "sim/schedule/launch.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
namespace {

// What the pass takes beyond its device time.
Seconds host_wait(const PassLoad& pass) {
  const double d = pass.device.value(), h = pass.host.value();
  if (h <= 0.0) return pass.around;
  const double fourth = d * d * d * d + h * h * h * h;
  return pass.around + std::max(Seconds(0.0), Seconds(std::sqrt(std::sqrt(fourth)) - d));
}

double gemms_per_block(const Transformer& model) { return model.gated_mlp ? 5.0 : 4.0; }

}  // namespace

void HostCalls::add(const LaunchTally& launches, double times) {
  kernels += times * launches.kernels;
  low_precision_gemms += times * launches.low_precision_gemms;
}

Seconds HostCalls::unit_time(const Framework& framework) const {
  const HostTimes& host = framework.host;
  return host.factor * (units * host.per_unit + slices * host.per_slice);
}

Seconds HostCalls::launch_time(const Framework& framework) const {
  const HostTimes& host = framework.host;
  return host.factor *
         (kernels * host.per_kernel + low_precision_gemms * host.per_low_precision_gemm +
          recomputed_blocks * host.per_recomputed_block + moe_blocks * host.per_moe_block +
          gradients * host.per_gradient);
}

double units_per_block(const Transformer& model, const Framework& framework) {
  const ShardedWeights& sharded = framework.sharded;
  if (sharded.modules_are_units) return model.norms_per_layer + gemms_per_block(model);
  return sharded.unit_blocks > 0.0 ? 1.0 / sharded.unit_blocks : 1.0 / model.num_layers;
}

double slices_per_block(const Transformer& model, const Framework& framework, int ranks) {
  return framework.sharded.modules_are_units ? gemms_per_block(model) * ranks : 0.0;
}

bool fetches_recomputed(const ShardedWeights& sharded) {
  return sharded.modules_are_units || sharded.regathers_recomputed;
}

LaunchWaits launch_waits(const PassLoad& forward, const PassLoad& backward, bool runs_ahead) {
  const LaunchWaits alone{.forward = host_wait(forward), .backward = host_wait(backward)};
  const Seconds both = alone.forward + alone.backward;
  if (!runs_ahead || both == Seconds(0.0)) return alone;
  const double share =
      host_wait({forward.device + backward.device, forward.host + backward.host}) / both;
  return {.forward = share * alone.forward, .backward = share * alone.backward};
}

}  // namespace llmsim::sim
