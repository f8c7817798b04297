// The prices of layers that strategies of a search share, each worked out when it is first
// asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/pipeline/stage_order.h"
#include "sim/search/plan_problem.h"
#include "sim/search/step_bounds.h"

namespace llmsim::sim {

struct LayoutPrices {
  std::optional<LayerPrices> layers{};
  LayerBounds bounds{};
};

class PriceTable {
 public:
  // `problem` must outlive the table.
  explicit PriceTable(const PlanProblem& problem);

  // The run of a strategy, in the place of the last one under its sharding.
  Run& run_of(const Strategy& strategy);

  // Before layouts whose switches or ranks give layers other prices.
  void forget();
  // Of a layout, a shape of its pipeline, the first sharding with the same prices, and a way to
  // recompute.  `strategy()` makes the strategy.
  template <class StrategyOf>
  const LayoutPrices& of(const SearchLayout& layout, const PipelineShape& shape, std::size_t base,
                         std::size_t way, const StrategyOf& strategy) {
    const std::size_t begin = (base * kVariants + variant_of(shape)) * ways();
    LayoutPrices& prices = prices_[begin + way];
    if (!prices.layers) price(prices, run_of(strategy()), layout, begin, way);
    return prices;
  }

  // Times without recomputation.  `prices`: whose they are.
  LayerPrices times_of(const Run& run, const SearchLayout& layout, std::size_t prices);

 private:
  // What prices of layers without experts depend on: tp, cp, micro_batch, sequence_parallel, whose
  // prices they are, and the switches that are not of experts alone.
  static constexpr std::size_t kMostSwitches = 8;
  using LayersWithoutExperts = std::array<std::int64_t, 5 + kMostSwitches>;

  // Layer prices depend on the backward passes of the schedule, and those of a tied table on
  // whether the head has another.
  static constexpr std::size_t kVariants = 6;
  std::size_t variant_of(const PipelineShape& shape) const;

  std::size_t ways() const { return problem_.space.recomputes().size(); }
  static LayersWithoutExperts without_experts(const SearchLayout& layout, std::size_t prices);
  void price(LayoutPrices& prices, const Run& run, const SearchLayout& layout, std::size_t begin,
             std::size_t way);
  LayerPrices layers_of(const Run& run, const SearchLayout& layout, std::size_t prices);

  const PlanProblem& problem_;
  ShardedRuns bases_;
  std::vector<LayoutPrices> prices_;
  std::vector<PricedWay> priced_ways_;  // of those that differ in them alone
  std::map<LayersWithoutExperts, LayerPrices> priced_without_experts_;
  std::map<LayersWithoutExperts, LayerPrices> times_without_experts_;
};

}  // namespace llmsim::sim
