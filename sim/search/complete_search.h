// Every strategy of a search that keeps the rules, with its exact memory and, where it fits, its
// exact step time: a whole space as a table, and what bounds are held to.
//
// A strategy is evaluated as plans are: memory_footprint() weighs it, StepSimulation times it.
// Those of one layout, sharding and recompute policy differ in their pipelines alone and share the
// passes of their chunks, and those of one pipeline and sharding the bytes of its stages.
#pragma once

#include <functional>
#include <vector>

#include "sim/memory/step_walk.h"
#include "sim/schedule/step.h"
#include "sim/search/plan_problem.h"
#include "sim/search/price_table.h"

namespace llmsim::sim {

struct CompleteStrategy {
  const SearchLayout& layout;
  const SearchPipeline& pipeline;
  SearchSharding sharding{};
  std::size_t recompute = 0;  // of SearchSpace::recomputes()
  Bytes peak{}, needed{};
  bool fits = false;
  Seconds time{};  // 0: not worked out
};

// Whose step times are worked out.
enum class CompleteTimes { OfFitting, OfAll };

class CompleteSearch {
 public:
  using Visit = std::function<void(const CompleteStrategy&)>;

  // `problem` must outlive the search.
  explicit CompleteSearch(const PlanProblem& problem,
                          CompleteTimes times = CompleteTimes::OfFitting)
      : problem_(problem), times_(times), prices_(problem) {}

  // Calls visit(strategy) for each of a group that keeps the rules.
  void search(const LayoutGroup& group, const Visit& visit);

 private:
  void search(const SearchLayout& layout, const Visit& visit);
  std::vector<const AllowedPipeline*> pipelines_of(const SearchLayout& layout) const;
  void evaluate(CompleteStrategy& one, const StageContents& contents, StageWalks& walks,
                SharedPasses& passes);

  const PlanProblem& problem_;
  CompleteTimes times_;
  PriceTable prices_;
};

}  // namespace llmsim::sim
