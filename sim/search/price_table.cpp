#include "sim/search/price_table.h"

#include "sim/strategy/stages.h"
#include "sim/strategy/validity.h"

namespace llmsim::sim {

PriceTable::PriceTable(const PlanProblem& problem)
    : problem_(problem),
      bases_(problem.bases),
      prices_(problem.bases.size() * kVariants * problem.space.recomputes().size()) {}

Run& PriceTable::run_of(const Strategy& strategy) {
  Run& run = bases_[index_of(strategy.sharding)].run;
  run.strategy = strategy;
  run.model.vocab_size = problem_.query.base.model.vocab_size;
  run.model.vocab_size = trained_vocab_size(run);
  return run;
}

void PriceTable::forget() {
  for (LayoutPrices& prices : prices_) prices.layers.reset();
}

std::size_t PriceTable::variant_of(const PipelineShape& shape) const {
  const std::size_t passes = splits_backward(shape.schedule)                ? 1
                             : shape.schedule == PipelineSchedule::DualPipe ? 2
                                                                            : 0;
  const bool two_tables = problem_.base.model.tied_embeddings && shape.stages > 1;
  return passes + (two_tables ? 3 : 0);
}

void PriceTable::price(LayoutPrices& prices, const Run& run, const SearchLayout& layout,
                       std::size_t begin, std::size_t way) {
  priced_ways_.clear();
  for (std::size_t other = 0; other < ways(); ++other) {
    const std::optional<LayerPrices>& known = prices_[begin + other].layers;
    if (known) priced_ways_.push_back({problem_.space.recomputes()[other], &*known});
  }
  prices.layers = layers_of(run, layout, begin + way);
  prices.bounds = layer_bounds(run, *prices.layers);
}

PriceTable::LayersWithoutExperts PriceTable::without_experts(const SearchLayout& layout,
                                                             std::size_t prices) {
  LayersWithoutExperts key{layout.tp, layout.cp, layout.micro_batch, layout.sequence_parallel,
                           static_cast<std::int64_t>(prices)};
  std::size_t place = key.size() - kMostSwitches;
  for (const SearchedField& field : searched_fields()) {
    if (field.is_switch && !field.of_experts) key.at(place++) = switch_value(field, layout);
  }
  return key;
}

// Those without experts are the same for all ways to place them.
LayerPrices PriceTable::layers_of(const Run& run, const SearchLayout& layout, std::size_t prices) {
  if (!run.model.moe) return layer_prices(run, priced_ways_);
  const LayersWithoutExperts key = without_experts(layout, prices);
  const auto known = priced_without_experts_.find(key);
  if (known != priced_without_experts_.end())
    return layer_prices(run, priced_ways_, &known->second);
  return priced_without_experts_.emplace(key, layer_prices(run, priced_ways_)).first->second;
}

LayerPrices PriceTable::times_of(const Run& run, const SearchLayout& layout, std::size_t prices) {
  if (!run.model.moe) return layer_times(run);
  const LayersWithoutExperts key = without_experts(layout, prices);
  const auto known = times_without_experts_.find(key);
  if (known != times_without_experts_.end()) return layer_times(run, &known->second);
  return times_without_experts_.emplace(key, layer_times(run)).first->second;
}

}  // namespace llmsim::sim
