#include "sim/memory/peak.h"

#include "sim/memory/memory_curve.h"
#include "sim/memory/stage_contents.h"

namespace llmsim::sim {

MemoryPeak memory_peak(const Run& run, const LayerPrices& prices, const Memory& memory) {
  const int stage = memory.fullest().stage;
  const MemoryPoint point = memory_curve(run, prices, stage, false).peak();
  return {.stage = stage,
          .phase = point.phase,
          .micro_batch = point.micro_batch,
          .layer = point.layer,
          .passes_in_flight = point.passes_in_flight,
          .blocks_in_flight = point.blocks_in_flight,
          .parameters = StageContents(run.model, run.strategy).held(stage)};
}

}  // namespace llmsim::sim
