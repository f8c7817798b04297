#include "sim/cost/contention.h"

#include <algorithm>
#include <cmath>

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
  const auto format = static_cast<std::size_t>(dtype);
  factors.sustained_clock *= run.cluster.device.achieved.gemm[format].clock_factor;
  factors.library = run.framework.gemm_efficiency;
  if (is_low_precision(dtype)) factors.low_precision = run.framework.low_precision.gemm_efficiency;
  return factors;
}

StepFactors attention_step_factors(const Run& run, bool backward) {
  StepFactors factors = shared_factors(run);
  if (backward) factors.determinism = run.framework.determinism.attention_backward;
  return factors;
}

GemmMachine gemm_machine(const Run& run, DType dtype) {
  GemmMachine machine = gemm_machine(run.cluster.device, dtype);
  const Framework& framework = run.framework;
  double& single = machine.coefficients.misaligned_factor;
  single = std::min(1.0, single * framework.misaligned_gemm_gain * framework.misaligned_gemm_rate);
  double& batch = machine.coefficients.misaligned_batch_factor;
  batch = std::min(1.0, batch * framework.misaligned_batch_rate);
  return machine;
}

HostShare host_share(const Cluster& cluster) {
  if (cluster.fabric.kind != FabricKind::Loopback) return {};
  const int processes = cluster.devices_on_a_node();
  const double others = processes - 1.0;
  const HostSharing& sharing = cluster.device.achieved.sharing;
  return {.gemms = 1.0 / (1.0 + others * sharing.gemms),
          .memory_bound = 1.0 / (1.0 + others * sharing.memory_bound),
          .cache = 1.0 / processes};
}

MemoryBoundMachine memory_bound_machine(const Cluster& cluster, const Framework& framework,
                                        const MemoryBoundForms& forms) {
  MemoryBoundMachine machine = memory_bound_machine(cluster.device, forms);
  const HostShare share = host_share(cluster);
  machine.cache *= share.cache;
  for (auto* rates : {&machine.rates.forward, &machine.rates.backward}) {
    for (MemoryBoundRate& rate : *rates) {
      rate.cached *= framework.efficiency;
      rate.streamed *= framework.efficiency * share.memory_bound;
    }
  }
  return machine;
}

Bytes filled_bytes(const Operator& op, bool backward, double element, const Framework& framework) {
  if (!framework.determinism.fills_new_tensors) return Bytes(0.0);
  switch (op.kind) {
    case OperatorKind::Gemm: {
      const bool accumulates = op.weight_gradient && framework.gradients.accumulated_by_gemm;
      return accumulates ? Bytes(0.0) : Bytes(real(op.batch * op.m) * real(op.n) * element);
    }
    case OperatorKind::Attention: return (backward ? 3.0 / 8.0 : 1.0 / 4.0) * op.moved;
    case OperatorKind::Norm: return op.moved / (backward ? 3.0 : 2.0);
    case OperatorKind::Cast:
    case OperatorKind::Copy: return op.moved / 2.0;
    default: return Bytes(0.0);
  }
}

namespace {

// Collectives never take a whole device: kernels that wait for each other would not end.
constexpr double kLargestShare = 0.75;
// Kernels that lose all cores would never end.
constexpr double kMostCores = 0.99;
// Where a data sheet gives no number of units.
constexpr int kUnpublishedUnits = 128;

double share(double part) { return std::min(kLargestShare, part); }

double memory_share(const GroupLinks& links, const Device& device, double bytes_per_wire_byte) {
  if (links.place.ranks <= 1) return 0.0;
  return share(bytes_per_wire_byte * links.bus_bandwidth() / device.achieved_bandwidth());
}

DeviceShare core_share(const GroupLinks& links, const Device& device) {
  return {.cores = links.place.ranks > 1
                       ? std::clamp(device.achieved.sharing.collectives, 0.0, kMostCores)
                       : 0.0};
}

}  // namespace

DeviceShare copied_share(const GroupLinks& links, const Device& device) {
  if (links.loopback) return core_share(links, device);
  return {.memory =
              memory_share(links, device, std::max(0.0, device.achieved.collective_traffic - 1.0))};
}

DeviceShare collective_share(const GroupLinks& links, const Device& device, double units) {
  if (links.loopback) return core_share(links, device);
  DeviceShare held{.memory = memory_share(links, device, device.achieved.collective_traffic)};
  const bool on_units =
      links.place.ranks > 1 && device.achieved.collective_unit_bandwidth > BytesPerSecond(0.0);
  if (on_units)
    held.units =
        share(units / (device.compute_units > 1 ? device.compute_units : kUnpublishedUnits));
  return held;
}

DeviceShare collective_share(const GroupLinks& links, const Device& device) {
  const double needed = std::ceil(links.nominal / device.achieved.collective_unit_bandwidth);
  return collective_share(links, device, std::clamp(needed, 1.0, device.achieved.collective_units));
}

WorkRates rates_overlapped(const DeviceShare& share, const Device& device) {
  const double arithmetic = 1.0 - share.units - device.achieved.memory_interference * share.memory;
  return {.arithmetic = (1.0 - share.cores) * std::max(1.0 - kLargestShare, arithmetic),
          .memory_bound = (1.0 - share.cores) * (1.0 - share.memory)};
}

double rate_loss(const WorkRates& rates, const WorkMix& mix) {
  if (mix.total() <= Seconds(0.0)) return 0.0;
  return 1.0 - mix.total() / (mix.arithmetic / rates.arithmetic +
                              mix.memory_bound / rates.memory_bound + mix.waiting);
}

ExposedTimes run_overlapped(Seconds collective, Seconds work, double loss) {
  const Seconds done = std::min(work, (1.0 - loss) * collective);
  const Seconds together = done / (1.0 - loss);
  return {.exposed = collective - together, .slowdown = together - done};
}

ExposedTimes pipelined(Seconds collective, const OverlapGemm& gemm, int pieces, int messages,
                       double loss) {
  const double beside = pieces - 1.0;
  const Seconds message = collective / messages;
  const ExposedTimes step = run_overlapped(message, gemm.piece, loss);
  const Seconds last = (messages - beside) * message;
  const Seconds shown = pieces * gemm.piece + beside * step.exposed + last - gemm.whole;
  const Seconds exposed = std::clamp(shown, Seconds(0.0), collective);
  return {.exposed = exposed, .slowdown = std::min(beside * step.slowdown, collective - exposed)};
}

OperatorRange overlapped_gemms(const OperatorList& operators, std::size_t index) {
  OperatorRange range{.first = index, .last = index};
  const auto goes_on = [&](std::size_t from, std::size_t to) {
    return in_gemms(operators[to]) && operators[to].module == operators[from].module;
  };
  if (operators[index].tensor_overlap == TensorOverlap::Follows) {
    while (range.first > 0 && goes_on(index - 1, range.first - 1)) --range.first;
    return range;
  }
  range.last = ++range.first;
  while (range.last < operators.size() && goes_on(range.first, range.last)) ++range.last;
  return range;
}

bool is_overlapped(const Operator& collective, const Operator& gemm) {
  if (gemm.kind != OperatorKind::Gemm) return false;
  return gemm.weight_gradient == (collective.tensor_overlap == TensorOverlap::WeightGradient);
}

}  // namespace llmsim::sim
