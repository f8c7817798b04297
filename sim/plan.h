// Searches all strategies for a model on a number of devices.
//
// Every strategy of search_space.h that keeps the rules is evaluated by the same code as predict();
// nothing is pruned by a heuristic.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/predict.h"
#include "sim/search_space.h"

namespace llmsim::sim {

enum class Objective { Throughput, Cost, Memory, Time };

// What to plan.  Every plan equals predict() of its run.  Of the searched fields everything that
// makes sense is tried, or the values of the restriction; the rest is as in `base`.
struct PlanQuery {
  Run base;  // model, cluster, framework, precision, optimizer, global_batch; its layout is ignored
  // The same run under a sharding, where its framework behaves otherwise there: other buffers,
  // overlap or temporaries.
  std::map<Sharding, Run> under{};
  Restriction restriction{};
  Objective objective = Objective::Throughput;
  int top = 10;  // how many plans to return
};

struct NearestMiss {
  std::string rule;
  Strategy strategy;
  Bytes needed;  // for "out of memory" of a device and "out of host memory" of a node
  Bytes available;
};

struct Plan {
  std::size_t evaluated = 0;  // strategies looked at
  std::size_t feasible = 0;
  std::map<std::string, std::size_t> rejected;  // rule -> how many
  std::vector<NearestMiss> nearest;             // per rule, the strategy that came closest
  std::vector<Prediction> plans;                // best first
  std::vector<Prediction> pareto;               // no other plan is both faster and smaller
};

Plan plan(const PlanQuery& query);

}  // namespace llmsim::sim
