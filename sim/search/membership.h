// Whether a run is one of those that a search looks at, and what it has that no search tries.
#pragma once

#include <string>
#include <vector>

#include "sim/search/plan_query.h"

namespace llmsim::sim {

// The fields in which `run` lies outside of the space of `query`; empty: the search looks at it, so
// no plan of the query may be slower.  Searched fields are judged one after the other, each among
// the members that agree in those before it:
//
//   tp, pp, cp, micro_batch, ep, etp, sequence_parallel; virtual_stages, pipeline_schedule,
//   embeddings_as_layers; sharding, shard_size; recompute
//
// All else that a member has not as `run` does is named by its key: of a strategy ("tp_overlap"),
// of the framework's behaviour ("framework.sharded.prefetch_units"), and "model",
// "collective_algorithm", "adapters" and "optimizer_step".  What says nothing is not compared: the
// schedule of a single stage, sequence parallelism of one tensor rank, shards of all ranks.
// Devices are taken to be those of the query.  Assumes a run that keeps the rules (validity.h).
std::vector<std::string> fields_outside(const PlanQuery& query, const Run& run);

}  // namespace llmsim::sim
