// The memory of one stage through a step, pass by pass (step_walk.h), and what an allocator reserves for it.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/step_walk.h"
#include "sim/run.h"

namespace llmsim::sim {

struct MemoryCurve {
  int stage = 0;
  std::vector<MemoryPoint> points{};
  std::size_t highest = 0;     // the first point of them that no other is above
  double fragmentation = 1.0;  // of what a step allocates and frees (footprint.h)

  const MemoryPoint& peak() const { return points[highest]; }
  Bytes reserved(const MemoryPoint& point) const;
};

// Requires a stage of a valid run.  `whole_step`: of all micro-batches, or of as few as reach the peak.
MemoryCurve memory_curve(const Run& run, const LayerPrices& prices, int stage, bool whole_step = true);

}  // namespace llmsim::sim
