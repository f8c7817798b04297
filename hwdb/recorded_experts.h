// Ranks that divide an expert, where a run does not say.
//
// Private to hwdb.
#pragma once

#include "hwdb/assumptions.h"
#include "hwdb/run_record.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {

// `strategy` has its mesh and what is stated of it.  Expert ranks that do not fit into dp * cp, but into tp * dp * cp, have whole
// experts (etp = 1): no other mesh of that size exists.
void set_expert_ranks(const RecordedTraining& training, sim::Strategy& strategy, Assumptions& assume);

}  // namespace llmsim::hwdb
