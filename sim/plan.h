// Searches all strategies for a model on a number of devices.
//
// Every valid combination of tp, pp, dp, micro-batch, sequence parallelism, virtual stages, sharding and recomputation is
// evaluated by the same code as predict(); nothing is pruned by a heuristic.  GPipe is left out because it takes as long as 1F1B
// and holds more; zero-bubble schedules and DualPipe are tried where they are asked for, because few frameworks have them; ZeRO-2
// and ZeRO-3 are tried without pipelining only, because they exchange whole gradients or weights for every micro-batch.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/predict.h"
#include "sim/strategy/strategy_fields.h"

namespace llmsim::sim {

enum class Objective { Throughput, Cost, Memory, Time };

// The fields that a search chooses; recompute is one as a whole.
inline constexpr std::array<std::string_view, 10> kSearchedFields{
    "tp", "pp", "dp", "cp", "ep", "micro_batch", "virtual_stages", "pipeline_schedule", "sharding", "recompute"};

// The values that a search may give to fields of a strategy, by key; "recompute" as people type it (text_of(Recompute)).
using Restriction = std::map<std::string, std::vector<FieldValue>>;

// What to plan.  Every plan equals predict() of its run.  Of the searched fields everything that makes sense is tried, or the
// values of the restriction; the rest is as in `base`.
struct PlanQuery {
  Run base;  // model, cluster, framework, precision, optimizer, global_batch; its layout is ignored
  // The same run under a sharding, where its framework behaves otherwise there: other buffers, overlap or temporaries.
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
