#include "sim/search/complete_search.h"

#include "sim/memory/footprint.h"
#include "sim/schedule/step.h"
#include "sim/strategy/validity.h"

namespace llmsim::sim {

void CompleteSearch::search(const LayoutGroup& group, const Visit& visit) {
  for (const LayoutRange& variant : group.variants) {
    prices_.forget();
    for (std::size_t i = variant.first; i < variant.last; ++i) search(problem_.layouts[i], visit);
  }
}

// That keep the rules.
std::vector<const AllowedPipeline*> CompleteSearch::pipelines_of(const SearchLayout& layout) const {
  const SearchSpace& space = problem_.space;
  std::vector<const AllowedPipeline*> list;
  for (const AllowedPipeline& pipeline : problem_.pipelines.at(layout.pp)) {
    if (space.go_together(layout, pipeline.choice) &&
        !broken_rule_name(problem_.base.model,
                          space.strategy(layout, pipeline.choice, {}, space.recomputes().front()),
                          problem_.base.num_devices))
      list.push_back(&pipeline);
  }
  return list;
}

void CompleteSearch::search(const SearchLayout& layout, const Visit& visit) {
  if (broken_layout(problem_, layout)) return;
  const SearchSpace& space = problem_.space;
  const std::vector<const AllowedPipeline*> pipelines = pipelines_of(layout);
  for (const SearchSharding& sharding : space.shardings(layout)) {
    const Run& run = prices_.run_of(space.strategy(layout, {.embeddings_as_layers = true}, sharding,
                                                   space.recomputes().front()));
    if (broken_in_all_pipelines(problem_, run.strategy)) continue;
    const RankParameters rank = rank_parameters(run.model, run.strategy);
    SharedPasses passes(run, rank);
    SharedChunks chunks(run, rank);
    for (const AllowedPipeline* pipeline : pipelines) {
      prices_.run_of(space.strategy(layout, pipeline->choice, sharding, {}));
      const StageContents contents(run, pipeline->counts->shared_stages(), rank);
      StageWalks walks(run, contents, chunks);
      for (std::size_t way = 0; way < space.recomputes().size(); ++way) {
        if (!space.go_together(layout, space.recomputes()[way])) continue;
        CompleteStrategy one{
            .layout = layout, .pipeline = pipeline->choice, .sharding = sharding, .recompute = way};
        evaluate(one, contents, walks, passes);
        visit(one);
      }
    }
  }
}

void CompleteSearch::evaluate(CompleteStrategy& one, const StageContents& contents,
                              StageWalks& walks, SharedPasses& passes) {
  const Strategy strategy = problem_.space.strategy(one.layout, one.pipeline, one.sharding,
                                                    problem_.space.recomputes()[one.recompute]);
  const std::size_t base = problem_.bases[index_of(one.sharding.sharding)].prices;
  const LayoutPrices& prices = prices_.of(one.layout, pipeline_shape(strategy), base, one.recompute,
                                          [&] { return strategy; });
  const Run& run = prices_.run_of(strategy);
  walks.use(*prices.layers);
  const Memory memory =
      memory_footprint(run, *prices.layers, contents, walks, MemoryStages::Fullest);
  one.peak = memory.peak, one.needed = memory.needed();
  one.fits = memory.fits() && memory.host.fits();
  if (!one.fits && times_ == CompleteTimes::OfFitting) return;
  StepSimulation step(run, *prices.layers, contents, passes);
  step.simulate();
  one.time = step.terms().total();
}

}  // namespace llmsim::sim
