// How a run lays out its experts: from its own keys, or from the words of its framework_detail, else as frameworks usually do.
//
// Private to hwdb.  Words: "etp=1", "moe_dispatcher=alltoall", "moe_a2a_overlap=true",
// "cuda graph transformer_engine [...]": graphs of modules, which leave the experts out, where "full_iteration" holds all.
#pragma once

#include "hwdb/assumptions.h"
#include "hwdb/run_record.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {

// `strategy` has its mesh.  Expert ranks that do not fit into dp * cp, but into tp * dp * cp, have whole experts (etp = 1): no
// other mesh of that size exists.
sim::ExpertStrategy recorded_experts(const RecordedTraining& training, const sim::Strategy& strategy, Assumptions& assume);

}  // namespace llmsim::hwdb
