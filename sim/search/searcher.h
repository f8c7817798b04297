// A search, and its part on one thread: it goes through groups of layouts that share the prices of
// layers, and the pipelines that the layers of the model allow; some are left out by a bound, the
// others are simulated.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/search/memory_bounds.h"
#include "sim/search/plan_query.h"
#include "sim/search/ranking.h"
#include "sim/search/step_bounds.h"

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

// Layouts one after the other.
struct LayoutRange {
  std::size_t first = 0, last = 0;
};

// Layouts that differ in the order of their stages and data ranks and in switches, and what their
// step takes at least.  Those with the same switches share the prices of layers.
struct LayoutGroup {
  std::vector<LayoutRange> variants{};  // each with its switches, one after the other
  Seconds bound{};
  // As the first of them may turn out: those that promise most are searched first.
  Seconds expected{};
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
  Bytes context{};  // of each process (context_memory)
  std::vector<ShardingSearch> shardings{};
  const DealtPipeline* pipeline = nullptr;
  PipelineShape shape{};
  Idea idea{};                      // but for the sharding
  std::vector<std::size_t> ways{};  // to recompute that go with the layout
  std::size_t recompute = 0;
};

// The search of one group after the other.
class Searcher {
 public:
  Searcher(const PlanProblem& problem, PlanFindings& found)
      : problem_(problem), found_(found), bases_(problem.bases) {}

  // What the passes of a micro-batch through the whole model take at least, as a step; of several
  // variants their compute alone, which switches of communication do not change.
  void bound(LayoutGroup& group);
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

  // Of the first variant of each way to dispatch tokens, as if every pass of the model took as long
  // as those of one micro-batch.
  struct StepBounds {
    Seconds compute{}, all{};
  };

  // What bounds have not ruled out.
  struct Candidate {
    Seconds bound{};
    Bytes peak{}, needed{};  // at least
    Idea idea{};
    const SearchLayout* layout = nullptr;
    const DealtPipeline* pipeline = nullptr;
    SearchSharding sharding{};
    std::size_t recompute = 0;
    const Prices* prices = nullptr;
  };

  // What prices of layers without experts depend on: tp, cp, micro_batch, sequence_parallel,
  // tp_overlap, and whose prices they are.
  using LayersWithoutExperts = std::tuple<int, int, int, bool, bool, std::size_t>;

  Run& run_of(const Strategy& strategy);
  static LayersWithoutExperts without_experts(const SearchLayout& layout, std::size_t prices);
  LayerPrices layers_of(const Run& run, const SearchLayout& layout, std::size_t prices);
  LayerPrices times_of(const Run& run, const SearchLayout& layout, std::size_t prices);
  StepBounds bounds(const LayoutRange& layouts);
  double expected_slowdown(const SearchLayout& layout) const;
  void search_variant(const LayoutRange& layouts, Seconds least);
  std::size_t leaves(const SearchLayout& layout) const;
  std::vector<std::size_t> ways_of(const SearchLayout& layout) const;
  void search(const SearchLayout& layout);
  void search_pipeline(SearchNode& node);
  bool leave_out_slow_shardings(const SearchNode& node);
  void search_shardings(const SearchNode& node);
  Strategy strategy(const SearchNode& node, const SearchSharding& sharding) const;
  Strategy strategy(const Candidate& candidate) const;
  const Prices& prices_of(const SearchNode& node, const ShardingSearch& sharding);
  ShardingSearch sharding_search(const SearchLayout& layout, const SearchSharding& choice);
  void reject_rule(const char* rule, const SearchNode& node, const SearchSharding& sharding,
                   std::size_t count);
  void evaluate_candidates();
  void evaluate(const Candidate& candidate);
  template <class StrategyOf>
  void leave_out(Bytes needed, const Prices& prices, const StrategyOf& strategy);
  bool is_nearer(Bytes needed) const;

  const PlanProblem& problem_;
  PlanFindings& found_;
  ShardedRuns bases_;
  Ranking ranking_{RankingRules{}};  // that of all threads, with what this group has found
  Plan plan_{};
  std::size_t too_large_ = 0;  // whose bounds are out of memory
  RankParameters rank_{};
  std::map<LayersWithoutExperts, LayerPrices> priced_without_experts_;
  std::map<LayersWithoutExperts, SharedLayers> without_experts_;  // of bounds
  std::vector<Prices> prices_;                                    // of the variant
  std::vector<PricedWay> priced_ways_;       // of them, those with the prices at hand
  std::vector<StageParameters> parameters_;  // of the pipeline
  std::vector<PassesInFlight> passes_;
  std::vector<StageActivations> activations_;
  std::vector<std::optional<ShardingCosts>> costs_;
  std::vector<bool> left_out_;         // shardings
  std::vector<Candidate> candidates_;  // of the variant
};

}  // namespace llmsim::sim
