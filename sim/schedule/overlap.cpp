#include "sim/schedule/overlap.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

Seconds serial_time(std::span<const OverlapBlock> blocks) {
  Seconds sum;
  for (const OverlapBlock& block : blocks) sum += block.gather + block.compute + block.reduce;
  return sum;
}

}  // namespace

Seconds overlap_end(std::span<const OverlapBlock> blocks, bool prefetch, bool overlap) {
  if (!overlap) return serial_time(blocks);
  Seconds compute_start, compute_end, gather_end, reduce_end;
  for (const OverlapBlock& block : blocks) {
    const Seconds may_gather = prefetch ? compute_start : compute_end;
    gather_end = std::max(gather_end, may_gather) + block.gather;
    compute_start = std::max(compute_end, gather_end);
    compute_end = compute_start + block.compute;
    reduce_end = std::max(reduce_end, compute_end) + block.reduce;
  }
  // Gathers and reductions share the network: together they cannot end before all bytes have passed.
  Seconds traffic;
  for (const OverlapBlock& block : blocks) traffic += block.gather + block.reduce;
  return std::max({compute_end, reduce_end, traffic});
}

}  // namespace llmsim::sim
