#include "sim/memory/peak.h"

#include <string_view>

#include "sim/memory/memory_curve.h"
#include "sim/memory/stage_contents.h"

namespace llmsim::sim {
namespace {

// The highest point of an instant; none where the timeline has none of that name.
const MemoryPoint* highest(const MemoryCurve& timeline, std::string_view instant) {
  const MemoryPoint* high = nullptr;
  for (const MemoryPoint& point : timeline.points) {
    if (instant == point.instant && (!high || point.allocated > high->allocated)) high = &point;
  }
  return high;
}

}  // namespace

MemoryPeak memory_peak(const Run& run, const LayerPrices& prices, const Memory& memory) {
  const StageMemory& fullest = memory.fullest();
  MemoryPeak peak{.stage = fullest.stage, .instant = fullest.instant};
  peak.parameters = StageContents(run.model, run.strategy).held(fullest.stage);
  const MemoryCurve timeline = memory_curve(run, prices, fullest.stage, {.whole_step = false, .reserved = false});
  if (const MemoryPoint* point = highest(timeline, fullest.instant)) {
    peak.micro_batch = point->micro_batch;
    peak.layer = point->layer;
    peak.passes_in_flight = point->passes_in_flight;
    peak.blocks_in_flight = point->blocks_in_flight;
  }
  return peak;
}

}  // namespace llmsim::sim
