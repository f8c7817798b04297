// A search, and its part on one thread: it goes through groups of layouts that share the prices of
// layers, and the pipelines that the layers of the model allow; some are left out by a bound, the
// others are simulated.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/search/memory_bounds.h"
#include "sim/search/plan_problem.h"
#include "sim/search/price_table.h"
#include "sim/search/ranking.h"
#include "sim/search/step_bounds.h"

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
  double price = 1.0;
  StepShape shape{};
};

// A layout, a pipeline of it, and a recompute policy.
struct SearchNode {
  const SearchLayout& layout;
  Bytes context{};  // of each process (context_memory)
  std::vector<ShardingSearch> shardings{};
  const AllowedPipeline* pipeline = nullptr;
  PipelineShape shape{};
  Idea idea{};                             // but for the sharding
  double layout_price = 1.0, price = 1.0;  // of the layout, and with the pipeline
  std::vector<std::size_t> ways{};         // to recompute that go with the layout
  std::size_t recompute = 0;
};

// The search of one group after the other.
class Searcher {
 public:
  Searcher(const PlanProblem& problem, PlanFindings& found)
      : problem_(problem), found_(found), prices_(problem) {
    Strategy strategy;
    for (const Recompute& policy : problem.space.recomputes()) {
      strategy.recompute = policy;
      recompute_prices_.push_back(problem.costs.of(SearchLevel::Recompute, strategy));
    }
  }

  // What states need at least.
  void bound_memory(LayoutGroup& group);
  // What the passes of a micro-batch through the whole model take at least, as a step; of several
  // variants their compute alone, which switches of communication do not change.  Nothing is worked
  // out of a group that cannot even nearly fit.
  void bound(LayoutGroup& group);
  void search(const LayoutGroup& group);
  void tell();

 private:
  // Of the first variant of each way to dispatch tokens, as if every pass of the model took as long
  // as those of one micro-batch.
  struct StepBounds {
    Seconds compute{}, all{};
  };

  // What bounds have not ruled out.
  struct Candidate {
    LeastCost bound{};
    Bytes peak{}, needed{};  // at least
    Idea idea{};
    const SearchLayout* layout = nullptr;
    const AllowedPipeline* pipeline = nullptr;
    SearchSharding sharding{};
    std::size_t recompute = 0;
    const LayoutPrices* prices = nullptr;
  };

  StepBounds bounds(const LayoutRange& layouts);
  double expected_slowdown(const SearchLayout& layout) const;
  double price_of(const SearchLayout& layout) const;
  void search_variant(const LayoutRange& layouts, Seconds least);
  std::size_t leaves(const SearchLayout& layout) const;
  std::vector<std::size_t> ways_of(const SearchLayout& layout) const;
  void search(const SearchLayout& layout, double price);
  void search_pipeline(SearchNode& node);
  bool leave_out_shardings(const SearchNode& node);
  void search_shardings(const SearchNode& node);
  void search_sharding(const SearchNode& node, std::size_t number, const LayoutPrices& prices,
                       const LeastCost& passes);
  Strategy strategy(const SearchNode& node, const SearchSharding& sharding) const;
  Strategy strategy(const Candidate& candidate) const;
  const LayoutPrices& prices_of(const SearchNode& node, const ShardingSearch& sharding);
  ShardingSearch sharding_search(const SearchLayout& layout, const SearchSharding& choice);
  void reject_rule(const char* rule, const SearchNode& node, const SearchSharding& sharding,
                   std::size_t count);
  void evaluate_candidates();
  void evaluate(const Candidate& candidate);
  template <class StrategyOf>
  void leave_out(Bytes needed, const LayoutPrices& prices, const StrategyOf& strategy);
  template <class StrategyOf>
  double measured_factor(const StrategyOf& strategy) const;
  bool is_nearer(Bytes needed) const;
  bool is_too_large(Bytes needed) const;
  // The parameters of a rank, which the layouts of a variant share.
  void set_rank(const SearchLayout& layout);
  double least_outputs(const Run& run) const;  // bytes
  Bytes least_needed(const SearchLayout& layout, const SearchSharding& sharding);
  const std::vector<StateBounds>& states_of(const SearchNode& node, std::size_t sharding);

  const PlanProblem& problem_;
  PlanFindings& found_;
  PriceTable prices_;
  Ranking ranking_{RankingRules{}};  // that of all threads, with what this group has found
  Plan plan_{};
  std::size_t too_large_ = 0;  // whose bounds are out of memory
  Bytes nearest_{};            // needed by the nearest miss of groups before
  RankParameters rank_{};
  std::vector<StageParameters> parameters_;  // of the pipeline
  std::vector<PassesInFlight> passes_;
  std::vector<StageActivations> activations_;
  // By sharding, where they have been asked for.
  std::vector<std::vector<StateBounds>> states_;
  std::vector<std::optional<ShardingCosts>> costs_;
  std::vector<double> recompute_prices_;  // by policy of the space
  std::vector<bool> left_out_;            // shardings
  std::vector<Candidate> candidates_;     // of the variant
};

}  // namespace llmsim::sim
