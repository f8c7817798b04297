// Searches all strategies for a model on a number of devices.
//
// Every strategy of search_space.h that keeps the rules is either evaluated by the same code as
// predict(), or left out because a bound proves that it does not fit, or that it can be neither
// among the best nor on the Pareto front (search_bounds.h, ranking.h).  Nothing is left out by a
// heuristic: the answer is that of an exhaustive search.
//
// Layouts that share prices of layers (tp, cp, expert ranks, sequence parallelism, micro-batch) are
// a group.  Groups are visited in the order of what their layers' passes take at least,
//
//   t = global_batch / (dp pp micro_batch) * (passes of all layers, embedding and head)
//
// which no pipeline and no sharding can undercut: the stage with most of the work of a micro-batch
// has at least its p-th part.  So the best come first, and whole groups fall by one comparison.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict.h"
#include "sim/search_space.h"

namespace llmsim::sim {

// The least of the errors that measured ratios of runs with one different setting show, 2 to 6 %.
inline constexpr double kRatioError = 0.02;
// The odds of a plan that is made with the usual headroom, and of one with memory to spare.
inline constexpr double kLikely = 0.75, kSurely = 0.95;

enum class Objective { Throughput, Cost, Memory, Time };

// What to plan.  Every plan equals predict() of its run.  Of the searched fields everything that
// makes sense is tried, or the values of the restriction; the rest is as in `base`.
struct PlanQuery {
  Run base;  // model, cluster, framework, precision, optimizer, global_batch; its layout is ignored
  // The same run under a sharding, where its framework behaves otherwise there: other buffers,
  // overlap or temporaries.
  std::map<Sharding, Run> under{};
  Restriction restriction{};
  Restriction excluded{};  // values of the same fields that no plan has
  Objective objective = Objective::Throughput;
  int top = 10;  // how many ideas to return (ranking.h)
  // Error of predicted ratios of step times: plans that are closer are ties.
  double tie = kRatioError;
  // Share of a device's memory that stays free; none: kLikely of runs as predicted fit.
  std::optional<double> headroom{};
  // Also the Pareto front of time and memory: what is slow but small has to be looked at too.
  bool pareto = true;
  int threads = 1;  // 0: all cores; plans and front do not depend on it
  // Told how many of the groups of layouts are done, one thread at a time; false ends the search.
  std::function<bool(std::size_t done, std::size_t all)> progress{};
};

// The run of a query under a sharding.
const Run& run_under(const PlanQuery& query, Sharding sharding);

// What the search of a query starts from.  Refers to the query.
SearchBase search_base(const PlanQuery& query);

struct NearestMiss {
  std::string rule;
  Strategy strategy;
  Bytes needed;  // for "out of memory" of a device and "out of host memory" of a node
  Bytes available;
};

// evaluated = feasible + pruned + all of `rejected`.
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
  // One of each idea, in the order of ranking.h; the first `ties` of them are ties.
  std::vector<Prediction> plans{};
  std::size_t ties = 0;
  // Ideas that are clearly slower than a plan and need no less.
  std::vector<Prediction> others{};
  double headroom = 0.0;              // that plans leave; 0 where nothing leaves what was asked for
  std::optional<Prediction> tight{};  // faster than all plans, with less headroom
  std::vector<Prediction> pareto{};   // of all that fit no other is both faster and smaller
};

// The share of memory that stays free where `probability` of the runs that need what is left fit.
double headroom_for(double probability, const PredictionErrors& errors);

Plan plan(const PlanQuery& query);

}  // namespace llmsim::sim
