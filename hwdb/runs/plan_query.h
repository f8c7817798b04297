// What a search for the best layout of a recorded run starts from.
#pragma once

#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/plan.h"

namespace llmsim::hwdb {

// The query of a record: it is resolved without its layout, once under each sharding, because
// its framework has other buffers, overlap or temporaries there; the base is that without
// sharding.  Fields that the record states and the search does not vary hold for every plan
// (etp, stage_layers).  What a site knows of layouts is put into what the search returns.  The
// search is not restricted.  Throws Error as RunResolver does, and where global_batch is missing.
sim::PlanQuery plan_query(RunRecord record, RunResolver& resolver);

// The record without its layout: mesh, expert ranks, micro-batch, pipeline, sharding, sequence
// parallelism and recomputation are left to the search.  What a layout has helped to fill, the
// global batch and the framework, is as in `run`, to which the record resolves.  An uneven split of
// layers (stage_layers) stays: no search varies it.
RunRecord without_layout(RunRecord record, const sim::Run& run);

}  // namespace llmsim::hwdb
