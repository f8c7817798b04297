// How gtest prints counts.
#pragma once

#include <ostream>

#include "sim/schedule/stage_work.h"

namespace llmsim::sim {

inline std::ostream& operator<<(std::ostream& out, const CollectiveTotal& total) {
  return out << total.calls << " calls, " << total.bytes << " bytes";
}

inline std::ostream& operator<<(std::ostream& out, const PassFlopCounts& flops) {
  return out << flops.gemms << " FLOPs of GEMMs, " << flops.attention << " of attention";
}

}  // namespace llmsim::sim
