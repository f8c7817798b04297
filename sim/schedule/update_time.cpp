#include "sim/schedule/update_time.h"

#include "sim/memory/shards.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

Seconds host_time(const Run& run, double owned, double weight_bytes, Bytes moved) {
  const Bytes up{run.strategy.offload.parameters ? 0.0 : owned * weight_bytes};
  return moved / run.cluster.device.host_memory_bandwidth + up / run.cluster.device.host_bandwidth;
}

}  // namespace

Seconds update_time(const Run& run, double parameters) {
  const bool sharded = run.strategy.sharding != Sharding::None;
  const double owned = sharded ? parameters / run.strategy.shard_ranks() : parameters;
  const ParameterStorage storage = storage_of(run.strategy, run.stack);
  const OperatorList update = lower_update(run.strategy.optimizer, storage, owned, owned);
  if (run.strategy.offload.optimizer) return host_time(run, owned, storage.weight_bytes, total_moved(update));
  const Achieved& achieved = run.cluster.device.achieved;
  const BytesPerSecond bandwidth = achieved.memory_fraction * run.cluster.device.memory_bandwidth;
  return total_moved(update) / bandwidth + total_kernels(update) * achieved.kernel_time;
}

}  // namespace llmsim::sim
