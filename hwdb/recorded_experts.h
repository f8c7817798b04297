// How a run lays out its experts: from its own keys, else as frameworks usually do.
//
// Private to hwdb.
#pragma once

#include "hwdb/assumptions.h"
#include "hwdb/run_record.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {

// `strategy` has its mesh.  Expert ranks that do not fit into dp * cp, but into tp * dp * cp, have whole experts (etp = 1): no
// other mesh of that size exists.
sim::ExpertStrategy recorded_experts(const RecordedTraining& training, const sim::Strategy& strategy, Assumptions& assume);

}  // namespace llmsim::hwdb
