#include "sim/search/plan_problem.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "sim/strategy/validity.h"

namespace llmsim::sim {
namespace {

// Weights in 8 or 4 bits that are sharded are quantised whenever they are gathered.
bool requantises(const Run& run, Sharding sharding) {
  return sharding >= Sharding::Zero3 && is_low_precision(matmul_dtype(run.strategy.precision));
}

// Whether two runs price layers alike, one under each sharding.
bool shares_prices(const Run& one, Sharding sharding, const Run& other, Sharding other_sharding) {
  Strategy same = other.strategy;
  same.sharding = one.strategy.sharding, same.shard_size = one.strategy.shard_size;
  return requantises(one, sharding) == requantises(other, other_sharding) &&
         one.framework == other.framework && one.strategy == same;
}

ShardedRuns bases_of(const PlanQuery& query) {
  ShardedRuns bases;
  for (const Sharding sharding : kAllShardings) {
    bases.push_back({.run = run_under(query, sharding), .prices = 0});
    ShardedRun& base = bases.back();
    base.run.model = query.base.model;
    while (!shares_prices(bases[base.prices].run, kAllShardings[base.prices], base.run, sharding))
      ++base.prices;
  }
  return bases;
}

auto group_key(const SearchLayout& layout) {
  return std::tuple(layout.tp, layout.cp, layout.ep, layout.etp, layout.sequence_parallel,
                    layout.micro_batch);
}

// In the order of the switches' rows: below, equal or above 0.
std::int64_t compare_switches(const SearchLayout& one, const SearchLayout& other) {
  for (const SearchedField& field : searched_fields()) {
    if (!field.is_switch) continue;
    const std::int64_t difference = switch_value(field, one) - switch_value(field, other);
    if (difference != 0) return difference;
  }
  return 0;
}

// Whether the stages of a pipeline can be given their layers, whatever surrounds them.
bool deals_layers(const Transformer& model, Strategy pipeline) {
  pipeline.etp.reset();  // of tensor ranks that a pipeline alone does not have
  return !broken_rule_name(model, pipeline, pipeline.num_devices());
}

void add_pipelines(PlanProblem& problem, int pp) {
  std::vector<AllowedPipeline>& pipelines = problem.pipelines[pp];
  if (!pipelines.empty()) return;
  for (const SearchPipeline& choice : problem.space.pipelines(pp)) {
    AllowedPipeline& pipeline = pipelines.emplace_back(AllowedPipeline{choice});
    const Strategy strategy =
        problem.space.strategy({.pp = pp}, choice, {}, problem.space.recomputes().front());
    const int layers = problem.base.model.num_layers + (choice.embeddings_as_layers ? 2 : 0);
    if (stage_layout(strategy).model_chunks() <= layers &&
        (strategy.stage_layers.empty() || deals_layers(problem.base.model, strategy)))
      pipeline.counts.emplace(
          std::make_shared<const EqualStages>(problem.base.model, strategy,
                                              problem.query.base.framework.low_precision),
          problem.space.recomputes());
  }
}

void add_groups(PlanProblem& problem) {
  problem.layouts = problem.space.layouts();
  std::stable_sort(problem.layouts.begin(), problem.layouts.end(),
                   [](const SearchLayout& one, const SearchLayout& other) {
                     const auto a = group_key(one), b = group_key(other);
                     return a != b ? a < b : compare_switches(one, other) < 0;
                   });
  for (std::size_t i = 0; i < problem.layouts.size(); ++i) {
    const SearchLayout &layout = problem.layouts[i], &before = problem.layouts[i > 0 ? i - 1 : 0];
    add_pipelines(problem, layout.pp);
    const bool begins = i == 0 || group_key(before) != group_key(layout);
    if (begins) problem.groups.emplace_back();
    std::vector<LayoutRange>& variants = problem.groups.back().variants;
    if (begins || compare_switches(before, layout) != 0) variants.push_back({i, i});
    variants.back().last = i + 1;
  }
}

}  // namespace

PlanProblem::PlanProblem(const PlanQuery& of)
    : query(of),
      bases(bases_of(of)),
      base(search_base(of)),
      space(base, of.restriction),
      costs(of),
      whole_model(model_chunks(of.base.model, {}).front()) {
  add_groups(*this);
}

const char* broken_in_all_pipelines(const PlanProblem& problem, Strategy strategy) {
  strategy.stage_layers.clear();  // has numbers for stages or for their chunks
  return broken_rule_name(problem.base.model, strategy, problem.base.num_devices);
}

const char* broken_layout(const PlanProblem& problem, const SearchLayout& layout) {
  return broken_in_all_pipelines(
      problem, problem.space.strategy(layout, {.embeddings_as_layers = true}, {}, Recompute{}));
}

}  // namespace llmsim::sim
