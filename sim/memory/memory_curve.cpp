#include "sim/memory/memory_curve.h"

namespace llmsim::sim {

Bytes MemoryCurve::reserved(const MemoryPoint& point) const {
  const Bytes idle = points.front().allocated;
  return idle + fragmentation * (point.allocated - idle);
}

MemoryCurve memory_curve(const Run& run, const LayerPrices& prices, int stage, bool whole_step) {
  const StageContents contents(run.model, run.strategy);
  MemoryCurve curve{.stage = stage, .fragmentation = run.framework.reserve.fragmentation};
  curve.points = stage_points(run, prices, contents, stage, whole_step);
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (curve.points[i].allocated > curve.peak().allocated) curve.highest = i;
  }
  return curve;
}

}  // namespace llmsim::sim
