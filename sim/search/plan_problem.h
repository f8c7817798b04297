// What a search goes through: groups of layouts that share the prices of layers, and the pipelines
// that the layers of the model allow.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/search/bounds.h"
#include "sim/search/plan_query.h"

namespace llmsim::sim {

// The run under one sharding, and the first sharding whose layer prices it shares.
struct ShardedRun {
  Run run;
  std::size_t prices;
};

using ShardedRuns = std::vector<ShardedRun>;  // by Sharding

// A pipeline that the layers of the model allow.
struct DealtPipeline {
  SearchPipeline choice;
  std::optional<StageCounts> counts{};  // none: more parts than layers
};

// Layouts that share the prices of layers, and what their step takes at least.
struct LayoutGroup {
  std::size_t first = 0, last = 0;  // of the layouts
  Seconds bound{};
};

// What is searched, the same for all threads.
struct PlanProblem {
  const PlanQuery& query;
  ShardedRuns bases;
  SearchBase base;
  SearchSpace space;
  std::vector<SearchLayout> layouts{};
  std::vector<LayoutGroup> groups{};
  std::map<int, std::vector<DealtPipeline>> pipelines{};  // by pp
  mutable std::mutex telling{};                           // of what is found

  // `of` must outlive it.
  explicit PlanProblem(const PlanQuery& of);
  PlanProblem(const PlanProblem&) = delete;
};

}  // namespace llmsim::sim
