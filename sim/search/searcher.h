// The search of groups of layouts, on one thread: what is left out by a bound, what is simulated.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/search/bounds.h"
#include "sim/search/plan_outcome.h"
#include "sim/search/plan_problem.h"
#include "sim/search/ranking.h"

namespace llmsim::sim {

// What all threads have found.
struct PlanFindings {
  Ranking ranking;
  Plan plan{};
};

// A sharding of a layout as it is searched.
struct ShardingSearch {
  SearchSharding choice;
  std::size_t base = 0;        // whose layer prices it has
  const char* rule = nullptr;  // that it breaks
  StateBounds states{};
  StepShape shape{};
};

// A layout, a pipeline of it, and a way to recompute.
struct SearchNode {
  const SearchLayout& layout;
  std::vector<ShardingSearch> shardings{};
  const DealtPipeline* pipeline = nullptr;
  PipelineShape shape{};
  Idea idea{};  // but for the sharding
  std::size_t recompute = 0;
};

// The search of one group after the other.
class Searcher {
 public:
  Searcher(const PlanProblem& problem, PlanFindings& found)
      : problem_(problem), found_(found), bases_(problem.bases) {}

  // What the passes of a micro-batch through the whole model take at least, as a step.
  Seconds bound(const LayoutGroup& group);
  void search(const LayoutGroup& group);
  void tell();

 private:
  // Layer prices depend on the backward passes of the schedule, and those of a tied table on
  // whether the head has another.
  static constexpr std::size_t kVariants = 6;
  std::size_t variant_of(const PipelineShape& shape) const {
    const std::size_t passes = splits_backward(shape.schedule)                ? 1
                               : shape.schedule == PipelineSchedule::DualPipe ? 2
                                                                              : 0;
    const bool two_tables = problem_.base.model.tied_embeddings && shape.stages > 1;
    return passes + (two_tables ? 3 : 0);
  }

  struct Prices {
    std::optional<LayerPrices> layers{};
    LayerBounds bounds{};
  };

  Run& run_of(const Strategy& strategy);
  std::size_t leaves(const SearchLayout& layout) const;
  void search(const SearchLayout& layout);
  void search_pipeline(SearchNode& node);
  void search_shardings(const SearchNode& node);
  Strategy strategy(const SearchNode& node, const SearchSharding& sharding) const;
  const Prices& prices_of(const SearchNode& node, const ShardingSearch& sharding);
  ShardingSearch sharding_search(const SearchLayout& layout, const SearchSharding& choice);
  void reject_rule(const char* rule, const SearchNode& node, const SearchSharding& sharding,
                   std::size_t count);
  void evaluate(const Strategy& strategy, const Prices& prices);
  void reject_unseen(const SearchNode& node, const SearchSharding& sharding, const Prices& prices,
                     Bytes bound);
  bool is_nearer(Bytes needed) const;

  const PlanProblem& problem_;
  PlanFindings& found_;
  ShardedRuns bases_;
  Ranking ranking_{RankingRules{}};  // that of all threads, with what this group has found
  Plan plan_{};
  RankParameters rank_{};
  std::vector<Prices> prices_;               // of the group
  std::vector<StageParameters> parameters_;  // of the pipeline
  std::vector<PassesInFlight> passes_;
  std::vector<StageActivations> activations_;
  std::vector<std::optional<ShardingCosts>> costs_;
};

}  // namespace llmsim::sim
