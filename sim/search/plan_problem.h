// What a search goes through: groups of layouts that share the prices of layers, and the pipelines
// that the layers of the model allow.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/search/layout_costs.h"
#include "sim/search/plan_query.h"
#include "sim/search/space.h"
#include "sim/search/step_bounds.h"

namespace llmsim::sim {

// The run under one sharding, and the first sharding whose layer prices it shares.
struct ShardedRun {
  Run run;
  std::size_t prices;
};

using ShardedRuns = std::vector<ShardedRun>;  // by Sharding

// A pipeline that the layers of the model allow.
struct AllowedPipeline {
  SearchPipeline choice;
  std::optional<StageCounts> counts{};  // none: more chunks than layers
};

// Layouts one after the other.
struct LayoutRange {
  std::size_t first = 0, last = 0;
};

// Layouts that differ in the order of their stages and data ranks and in switches, and what their
// step takes at least.  Those with the same switches share the prices of layers.
struct LayoutGroup {
  std::vector<LayoutRange> variants{};  // each with its switches, one after the other
  Bytes least{};                        // needed by each of them, for its states alone
  Seconds bound{};
  double price = 1.0;  // what each of them costs in addition to its time, at least
  // As the first of them may turn out: those that promise most are searched first.
  Seconds expected{};
};

// What is searched, the same for all threads.
struct PlanProblem {
  const PlanQuery& query;
  ShardedRuns bases;
  SearchBase base;
  SearchSpace space;
  LayoutCosts costs;
  ModelChunk whole_model{};  // without a pipeline
  std::vector<SearchLayout> layouts{};
  std::vector<LayoutGroup> groups{};
  std::map<int, std::vector<AllowedPipeline>> pipelines{};  // by pp
  mutable std::mutex telling{};                             // of what is found

  // `of` must outlive it.
  explicit PlanProblem(const PlanQuery& of);
  PlanProblem(const PlanProblem&) = delete;
};

// The rule that a strategy breaks in every pipeline; null: none.
const char* broken_in_all_pipelines(const PlanProblem& problem, Strategy strategy);
// Whether every pipeline and sharding of a layout breaks a rule.
const char* broken_layout(const PlanProblem& problem, const SearchLayout& layout);

}  // namespace llmsim::sim
