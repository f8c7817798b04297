#include "sim/cost/contention.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
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
  const BytesPerSecond memory = device.achieved.memory_fraction * device.memory_bandwidth;
  return share(bytes_per_wire_byte * links.bus_bandwidth() / memory);
}

DeviceShare core_share(const GroupLinks& links, const Device& device) {
  return {.cores = links.place.ranks > 1 ? std::clamp(device.achieved.sharing.collectives, 0.0, kMostCores) : 0.0};
}

}  // namespace

DeviceShare copied_share(const GroupLinks& links, const Device& device) {
  if (links.loopback) return core_share(links, device);
  return {.memory = memory_share(links, device, std::max(0.0, device.achieved.collective_traffic - 1.0))};
}

DeviceShare collective_share(const GroupLinks& links, const Device& device, double units) {
  if (links.loopback) return core_share(links, device);
  DeviceShare held{.memory = memory_share(links, device, device.achieved.collective_traffic)};
  const bool on_units = links.place.ranks > 1 && device.achieved.collective_unit_bandwidth > BytesPerSecond(0.0);
  if (on_units) held.units = share(units / (device.compute_units > 1 ? device.compute_units : kUnpublishedUnits));
  return held;
}

DeviceShare collective_share(const GroupLinks& links, const Device& device) {
  const double needed = std::ceil(links.nominal / device.achieved.collective_unit_bandwidth);
  return collective_share(links, device, std::clamp(needed, 1.0, device.achieved.collective_units));
}

WorkRates rates_beside(const DeviceShare& share, const Device& device) {
  const double arithmetic = 1.0 - share.units - device.achieved.memory_interference * share.memory;
  return {.arithmetic = (1.0 - share.cores) * std::max(1.0 - kLargestShare, arithmetic),
          .streaming = (1.0 - share.cores) * (1.0 - share.memory)};
}

double rate_loss(const WorkRates& rates, const WorkMix& mix) {
  if (mix.total() <= Seconds(0.0)) return 0.0;
  return 1.0 - mix.total() / (mix.arithmetic / rates.arithmetic + mix.streaming / rates.streaming + mix.waiting);
}

BesideTimes run_beside(Seconds collective, Seconds work, double loss) {
  const Seconds done = std::min(work, (1.0 - loss) * collective);
  const Seconds together = done / (1.0 - loss);
  return {.exposed = collective - together, .slowdown = together - done};
}

namespace {

bool in_gemm(const Operator& op) { return op.kind == OperatorKind::Gemm || op.kind == OperatorKind::Cast; }

}  // namespace

BesideTimes pipelined(Seconds collective, const OverlapGemm& gemm, int pieces, int messages, double loss) {
  const double beside = pieces - 1.0;
  const Seconds message = collective / messages;
  const BesideTimes step = run_beside(message, gemm.piece, loss);
  const Seconds last = (messages - beside) * message;
  const Seconds shown = pieces * gemm.piece + beside * step.exposed + last - gemm.whole;
  const Seconds exposed = std::clamp(shown, Seconds(0.0), collective);
  return {.exposed = exposed, .slowdown = std::min(beside * step.slowdown, collective - exposed)};
}

OperatorRange overlapped_gemms(const OperatorList& operators, std::size_t index) {
  OperatorRange range{.first = index, .last = index};
  if (operators[index].tensor_overlap == TensorOverlap::Follows) {
    while (range.first > 0 && in_gemm(operators[range.first - 1])) --range.first;
    return range;
  }
  ++range.first;
  while (range.first < operators.size() && operators[range.first].kind == OperatorKind::Collective) ++range.first;
  range.last = range.first;
  while (range.last < operators.size() && in_gemm(operators[range.last])) ++range.last;
  return range;
}

bool is_overlapped(const Operator& collective, const Operator& gemm) {
  if (gemm.kind != OperatorKind::Gemm) return false;
  return gemm.weight_gradient == (collective.tensor_overlap == TensorOverlap::WeightGradient);
}

}  // namespace llmsim::sim
