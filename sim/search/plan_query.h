// What to plan, a run whose layout is searched for; which runs that search looks at; and what it
// has found.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict.h"
#include "sim/run.h"
#include "sim/search/space.h"

namespace llmsim::sim {

// Of plans of one idea, one that surely fits may take so much longer than the fastest.
inline constexpr double kRoomWorth = 0.01;
// A run nearly fits that needs at most so much more than a device has.
inline constexpr double kNearlyFits = 0.1;
// A plan that takes so much longer than another and needs no less is clearly worse.
inline constexpr double kClearlySlower = 0.02;
// One plan is faster than another where that is so probable; else they are ties.
inline constexpr double kDecided = 0.75;
// The odds of a plan that is made with the usual headroom, and of one with memory to spare.
inline constexpr double kLikely = 0.75, kSurely = 0.95;

enum class Objective { Throughput, Cost, Memory, Time };

// What decides between plans that are nearly as fast: the labour they take and what predictions are
// known to miss (layout_costs.h), or nothing but the predicted time.
enum class Preference { Simple, Fast };

// What to plan.  Every plan equals predict() of its run.  Of the searched fields everything that
// makes sense is tried, or the values of the restriction; the rest is as in `base`.
struct PlanQuery {
  Run base;  // model, cluster, framework, precision, optimizer, global_batch; its layout is ignored
  // The same run under a sharding, where its framework behaves otherwise there: other buffers,
  // overlap or temporaries.
  std::map<Sharding, Run> under{};
  Restriction restriction{};
  Restriction excluded{};  // values of the same fields that no plan has
  // A rule that plans keep in addition to those of all runs (validity.h): what it is called where a
  // strategy breaks it, and whether one keeps it.  Asked of strategies that bounds have not ruled
  // out, by several threads at once.
  std::string rule{};
  std::function<bool(const Strategy&)> admits{};
  // Puts into a run that has been given its layout what is known of that layout alone; none:
  // nothing.  The search ranks ideas without it; those that it returns are predicted with it and
  // ordered by that, and so are the front and what nearly fits.
  std::function<void(Run&)> laid_out{};
  Objective objective = Objective::Throughput;
  Preference prefer = Preference::Simple;
  int top = 10;  // how many ideas to return (ranking.h)
  // Of plans of one idea, what needs less may cost so much more (ranking.h).
  double tie = kRoomWorth;
  // Share of a device's memory that stays free; none: kLikely of runs as predicted fit.
  std::optional<double> headroom{};
  // Also the Pareto front of time and memory: what is slow but small has to be looked at too.
  bool pareto = true;
  int threads = 1;  // 0: all cores; plans and front do not depend on it
  // Called with how many of the groups of layouts are done, one thread at a time; false ends
  // the search.
  std::function<bool(std::size_t done, std::size_t all)> progress{};
};

// The run of a query under a sharding.
const Run& run_under(const PlanQuery& query, Sharding sharding);

// What the search of a query starts from.  Refers to the query.
SearchBase search_base(const PlanQuery& query);

// The fields in which `run` lies outside of the space of `query`; empty: the search looks at it, so
// no plan of the query may be slower.  Searched fields are judged one after the other, each among
// the members that agree in those before it:
//
//   those of a layout, of a pipeline and of a sharding, each in the order of the table in
//   search/searched_fields.h;
//   recompute
//
// All else that a member has not as `run` does is named by its key: of a strategy ("compile"),
// of the framework's behaviour ("framework.sharded.prefetch_units"), and "model",
// "collective_algorithm", "adapters" and "optimizer_step".  What says nothing is not compared: the
// schedule of a single stage, sequence parallelism of one tensor rank, shards of all ranks.
// Devices are taken to be those of the query.  Assumes a run that keeps the rules (validity.h).
std::vector<std::string> fields_outside(const PlanQuery& query, const Run& run);

// Of a rule, the strategy that breaks it by least.
struct NearestMiss {
  std::string rule;
  Strategy strategy;
  Bytes needed;  // for "out of memory" of a device and "out of host memory" of a node
  Bytes available;
  double fit_probability = 0.0;  // of a device's memory
};

// What a search has found, and what it has looked at: evaluated = feasible + pruned + all
// of `rejected`.
struct Plan {
  bool complete = true;       // false: progress ended the search, and what is left was not seen
  std::size_t evaluated = 0;  // strategies of the space
  std::size_t feasible = 0;   // looked at one by one: they fit
  std::size_t priced = 0;  // of these, whose step was simulated; of the others a bound was enough
  std::size_t pruned = 0;  // neither among the best nor on the front, whether or not they fit
  std::map<std::string, std::size_t> rejected{};  // rule -> how many
  // Per rule, the strategy that came closest: among all where nothing fits, else among those that
  // were looked at one by one.
  std::vector<NearestMiss> nearest{};
  // One of each idea, in the order of ranking.h; which of the first `ties` of them is the fastest
  // is not sure.
  std::vector<Prediction> plans{};
  std::size_t ties = 0;
  // Ideas that are no slower than the first plan and need no more, or are faster with a probability
  // of kDecided, and take more labour: the first plan is not beaten by another one.
  std::vector<Prediction> dearer{};
  // Ideas that are clearly slower than a plan and need no less, or equal one in another sharding.
  std::vector<Prediction> others{};
  double headroom = 0.0;              // that plans leave; 0 where nothing leaves what was asked for
  std::optional<Prediction> tight{};  // faster than all plans, with less headroom
  // Faster than all of these, but does not fit, by at most kNearlyFits.
  std::optional<Prediction> nearly_fits{};
  std::vector<Prediction> pareto{};  // of all that fit no other is both faster and smaller
};

}  // namespace llmsim::sim
