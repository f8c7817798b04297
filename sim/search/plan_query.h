// What to plan: a run whose layout is searched for.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>

#include "sim/run.h"
#include "sim/search/space.h"

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

}  // namespace llmsim::sim
