#include "sim/cost/step_factors.h"

namespace llmsim::sim {
namespace {

StepFactors shared_factors(const Run& run) {
  const Achieved& achieved = run.cluster.device.achieved;
  return {.sustained_clock = achieved.sustained_clock,
          .training_rate = achieved.training_rate,
          .framework = run.framework.efficiency,
          .host_sharing = host_share(run.cluster).gemms};
}

}  // namespace

StepFactors gemm_step_factors(const Run& run, DType dtype) {
  StepFactors factors = shared_factors(run);
  factors.library = run.framework.gemm_efficiency;
  if (is_low_precision(dtype)) factors.low_precision = run.framework.low_precision.gemm_efficiency;
  return factors;
}

StepFactors attention_step_factors(const Run& run, bool backward) {
  StepFactors factors = shared_factors(run);
  if (backward) factors.determinism = run.framework.determinism.attention_backward;
  return factors;
}

HostShare host_share(const Cluster& cluster) {
  if (cluster.fabric.kind != FabricKind::Loopback) return {};
  const int processes = cluster.devices_on_a_node();
  const double others = processes - 1.0;
  const HostSharing& sharing = cluster.device.achieved.sharing;
  return {.gemms = 1.0 / (1.0 + others * sharing.gemms),
          .streaming = 1.0 / (1.0 + others * sharing.streaming),
          .cache = 1.0 / processes};
}

StreamingMachine streaming_machine(const Cluster& cluster, const StreamingForms& forms) {
  StreamingMachine machine = streaming_machine(cluster.device, forms);
  const HostShare share = host_share(cluster);
  machine.cache *= share.cache;
  for (auto* rates : {&machine.rates.forward, &machine.rates.backward}) {
    for (StreamingRate& rate : *rates) rate.streamed *= share.streaming;
  }
  return machine;
}

Bytes filled_bytes(const Operator& op, bool backward, double element, const Framework& framework) {
  if (!framework.determinism.fills_new_tensors) return Bytes(0.0);
  switch (op.kind) {
    case OperatorKind::Gemm: {
      const bool accumulates = op.weight_gradient && framework.gradients.accumulated_by_gemm;
      return accumulates ? Bytes(0.0) : Bytes(static_cast<double>(op.batch * op.m) * static_cast<double>(op.n) * element);
    }
    case OperatorKind::Attention: return (backward ? 3.0 / 8.0 : 1.0 / 4.0) * op.moved;
    case OperatorKind::Norm: return op.moved / (backward ? 3.0 : 2.0);
    case OperatorKind::Cast:
    case OperatorKind::Copy: return op.moved / 2.0;
    default: return Bytes(0.0);
  }
}

}  // namespace llmsim::sim
