// Searches all strategies for a model on a number of devices.
//
// Every strategy of search/space.h that keeps the rules is either evaluated by the same code
// as predict(), or left out because a bound proves that it does not fit, or that it can be
// neither among the best nor on the Pareto front (search/step_bounds.h,
// search/memory_bounds.h, search/ranking.h).  Nothing is left out by a heuristic: the answer
// is that of an exhaustive search.
//
// Layouts that share prices of layers (tp, cp, expert ranks, sequence parallelism, micro-batch) are
// a group.  Groups are visited in the order of a lower bound of their step times,
//
//   t = global_batch / (dp pp micro_batch) * (passes of all layers, embedding and head)
//
// which no pipeline and no sharding can undercut: the stage with most of the work of a micro-batch
// has at least its p-th part.  So the best come first, and whole groups fall by one comparison.
// Groups of which not even the states nearly fit have no such bound and come last, the smallest of
// them first.
#pragma once

#include <functional>

#include "sim/search/plan_query.h"

namespace llmsim::sim {

// The share of memory that stays free where `probability` of the runs that need what is left fit.
double headroom_for(double probability, const PredictionErrors& errors);

// The probability that a plan is faster than another of the same query (strategy/layout_ratio.h),
// by what they differ in.
double probability_faster(const Prediction& one, const Prediction& other);

Plan plan(const PlanQuery& query);

// Whether any strategy of a query's space fits, with headroom or without.  Layouts whose states
// need least are asked first, no times are, and the first that fits ends it; false also where
// query.progress has ended it.
bool fits_anywhere(const PlanQuery& query);

// A strategy of a query's space, with its memory and, where it fits, the time of its step.
struct PricedStrategy {
  Strategy strategy;
  Bytes peak{}, needed{};  // needed: with context and gaps, what must be there
  bool fits = false;
  Seconds step_time{};  // 0: does not fit
};

// Calls visit(strategy) for every one that keeps the rules, on one thread; each equals predict() of
// its run (search/complete_search.h).  False: query.progress has ended it.  Throws Error as plan()
// does: for a model or a restriction that is none.
//
// The space is a list of groups of layouts, and strategies come group by group.  Of `groups_of`,
// which takes their number, only those from its first to before its second value are visited.
bool price_space(
    const PlanQuery& query, const std::function<void(const PricedStrategy&)>& visit,
    const std::function<std::pair<std::size_t, std::size_t>(std::size_t)>& groups_of = {});

}  // namespace llmsim::sim
