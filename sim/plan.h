// Searches all strategies for a model on a number of devices.
//
// Every strategy of search/space.h that keeps the rules is either evaluated by the same code as
// predict(), or left out because a bound proves that it does not fit, or that it can be neither
// among the best nor on the Pareto front (search/step_bounds.h, search/memory_bounds.h,
// search/ranking.h).  Nothing is left out by a heuristic: the answer is that of an exhaustive
// search.
//
// Layouts that share prices of layers (tp, cp, expert ranks, sequence parallelism, micro-batch) are
// a group.  Groups are visited in the order of what their layers' passes take at least,
//
//   t = global_batch / (dp pp micro_batch) * (passes of all layers, embedding and head)
//
// which no pipeline and no sharding can undercut: the stage with most of the work of a micro-batch
// has at least its p-th part.  So the best come first, and whole groups fall by one comparison.
#pragma once

#include "sim/search/plan_query.h"

namespace llmsim::sim {

// The share of memory that stays free where `probability` of the runs that need what is left fit.
double headroom_for(double probability, const PredictionErrors& errors);

Plan plan(const PlanQuery& query);

}  // namespace llmsim::sim
