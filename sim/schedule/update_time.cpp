#include "sim/schedule/update_time.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/gemm.h"
#include "sim/cost/host_sharing.h"
#include "sim/memory/shards.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

Seconds host_time(const Run& run, double owned, const ParameterStorage& storage) {
  ParameterStorage host = storage;
  host.gradient_bytes = size_of(DType::Fp32).value();
  host.main_gradient_bytes = 0.0;
  const UpdateOperators step = lower_update(run.strategy.optimizer, host, true, owned, owned);
  const Bytes clipped = run.strategy.gradient_clip ? step.clip.moved : Bytes(0.0);
  const Bytes moved = clipped + run.framework.host_copies.update_slowdown * step.update.moved;
  const Bytes up{run.strategy.offload.parameters ? 0.0 : owned * storage.weight_bytes};
  return moved / run.cluster.host_memory_share() + up / run.cluster.host_link_share();
}

// Ranks that share the states share the matrices.
Seconds orthogonalisation_time(const Run& run) {
  const GemmMachine machine = gemm_machine(run.cluster.device, DType::Bf16);
  Seconds block;
  for (const Operator& op : lower_orthogonalisation(run.model, run.strategy.tp)) block += gemm_time(op, machine);
  const double blocks = std::ceil(static_cast<double>(run.model.num_layers) / run.strategy.pp / run.strategy.shard_ranks());
  return blocks * block / (run.cluster.device.achieved.sustained_clock * run.framework.efficiency);
}

// Of the vector units.
Seconds arithmetic_time(const Operator& op, const Device& device) {
  return op.flops > Flops(0.0) ? op.flops / device.vector_peak : Seconds(0.0);
}

Seconds device_time(const Run& run, double owned, const ParameterStorage& storage) {
  const StreamingMachine machine = streaming_machine(run.cluster, streaming_forms(run.model, run.strategy));
  const UpdateOperators step = lower_update(run.strategy.optimizer, storage, run.framework.update.fused, owned, owned);
  Seconds time;
  if (run.strategy.optimizer == OptimizerKind::Muon && !run.strategy.adapters) time += orthogonalisation_time(run);
  for (const Operator* op : {&step.norm, &step.clip, &step.update}) {
    const bool clips = run.strategy.gradient_clip && !run.framework.update.in_backward;
    if (op == &step.update || clips)
      time += std::max(streaming_time(*op, false, machine),
                       arithmetic_time(*op, run.cluster.device) + op->kernels * machine.kernel_time);
  }
  return time;
}

}  // namespace

Seconds update_time(const Run& run, double parameters, double experts) {
  const double owned = parameters / run.strategy.shard_ranks() + experts / run.strategy.expert_shard_ranks();
  const ParameterStorage storage = storage_of(run.strategy, run.framework);
  return run.strategy.offload.optimizer ? host_time(run, owned, storage) : device_time(run, owned, storage);
}

}  // namespace llmsim::sim
