#include "sim/schedule/update_time.h"

#include "sim/memory/shards.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

Seconds host_time(const Run& run, double owned, const ParameterStorage& storage) {
  ParameterStorage host = storage;
  host.gradient_bytes = size_of(DType::Fp32).value();
  host.main_gradient_bytes = 0.0;
  const UpdateOperators step = lower_update(run.strategy.optimizer, host, true, owned, owned);
  const Bytes moved = step.clip.moved + run.stack.host_copies.update_slowdown * step.update.moved;
  const Bytes up{run.strategy.offload.parameters ? 0.0 : owned * storage.weight_bytes};
  return moved / run.cluster.host_memory_share() + up / run.cluster.host_link_share();
}

Seconds device_time(const Run& run, double owned, const ParameterStorage& storage) {
  const Achieved& achieved = run.cluster.device.achieved;
  const BytesPerSecond bandwidth = achieved.memory_fraction * run.cluster.device.memory_bandwidth;
  const UpdateOperators step = lower_update(run.strategy.optimizer, storage, run.stack.fused_update, owned, owned);
  Seconds time;
  for (const Operator* op : {&step.norm, &step.clip, &step.update}) {
    const bool in_backward = run.stack.optimizer_in_backward && op != &step.update;
    if (!in_backward) time += op->moved / bandwidth + op->kernels * achieved.kernel_time;
  }
  return time;
}

}  // namespace

Seconds update_time(const Run& run, double parameters) {
  const bool sharded = run.strategy.sharding != Sharding::None;
  const double owned = sharded ? parameters / run.strategy.shard_ranks() : parameters;
  const ParameterStorage storage = storage_of(run.strategy, run.stack);
  return run.strategy.offload.optimizer ? host_time(run, owned, storage) : device_time(run, owned, storage);
}

}  // namespace llmsim::sim
