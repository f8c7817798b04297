#include "sim/plan.h"

#include <algorithm>
#include <tuple>

#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/schedule/step.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfHostMemory = "out of host memory";

// A strategy that fits, as the ranking needs it.
struct Candidate {
  Strategy strategy;
  Seconds time;
  Bytes peak;
};

// The run under one sharding, and the first sharding whose layer prices it shares.
struct Base {
  Run run;
  std::size_t prices;
};

using Bases = std::vector<Base>;  // by Sharding

// Layer prices depend on these dimensions of a strategy and on the framework's behaviour alone.
using PriceKey = std::tuple<std::size_t, int, int, int, int, bool, int, int, Recompute>;

Bases bases_of(const PlanQuery& query) {
  Bases bases;
  for (const Sharding sharding : kAllShardings) {
    const auto found = query.under.find(sharding);
    bases.push_back({.run = found == query.under.end() ? query.base : found->second, .prices = 0});
    // Prices depend on how the framework behaves: those of equal frameworks are shared.
    Base& base = bases.back();
    while (!(bases[base.prices].run.framework == base.run.framework)) ++base.prices;
  }
  return bases;
}

SearchBase search_base(const PlanQuery& query, const Bases& bases) {
  SearchBase base{query.base.model, query.base.cluster.num_devices, query.base.strategy, {}};
  for (std::size_t i = 0; i < bases.size(); ++i) base.under[i] = bases[i].run.strategy;
  return base;
}

// The run of a strategy, in the place of the last one under its sharding; its vocabulary is not
// padded yet.
Run& run_under(Bases& bases, const PlanQuery& query, const Strategy& strategy) {
  Run& run = bases[static_cast<std::size_t>(strategy.sharding)].run;
  run.strategy = strategy;
  run.model.vocab_size = query.base.model.vocab_size;
  return run;
}

const LayerPrices& prices_of(const Base& base, std::map<PriceKey, LayerPrices>& known) {
  const Strategy& s = base.run.strategy;
  const int passes = splits_backward(s.pipeline_schedule)                ? 1
                     : s.pipeline_schedule == PipelineSchedule::DualPipe ? 2
                                                                         : 0;
  const PriceKey key{
      base.prices,         s.tp,          s.cp,   s.ep,       s.expert_tensor_ranks(),
      s.sequence_parallel, s.micro_batch, passes, s.recompute};
  auto found = known.find(key);
  if (found == known.end()) found = known.emplace(key, layer_prices(base.run)).first;
  return found->second;
}

void reject(Plan& plan, const NearestMiss& miss) {
  if (plan.rejected[miss.rule]++ == 0) {
    plan.nearest.push_back(miss);
    return;
  }
  if (miss.needed <= Bytes(0.0)) return;
  for (NearestMiss& known : plan.nearest) {
    if (known.rule == miss.rule && miss.needed < known.needed) known = miss;
  }
}

// Every strategy that fits; counts all of them in `plan`.
std::vector<Candidate> candidates_of(const PlanQuery& query, Bases& bases, Plan& plan) {
  std::vector<Candidate> candidates;
  std::map<PriceKey, LayerPrices> prices;
  for_each_strategy(search_base(query, bases), query.restriction, [&](const Strategy& strategy) {
    ++plan.evaluated;
    if (const char* rule =
            broken_rule_name(query.base.model, strategy, query.base.cluster.num_devices)) {
      reject(plan, {.rule = rule, .strategy = strategy, .needed = {}, .available = {}});
      return;
    }
    Run& run = run_under(bases, query, strategy);
    run.model.vocab_size = trained_vocab_size(run);
    const LayerPrices& layers =
        prices_of(bases[static_cast<std::size_t>(strategy.sharding)], prices);
    const Memory memory = memory_footprint(run, layers, MemoryStages::Fullest);
    if (!memory.fits()) {
      reject(plan, {.rule = kOutOfMemory,
                    .strategy = strategy,
                    .needed = memory.needed(),
                    .available = memory.capacity});
      return;
    }
    if (!memory.host.fits()) {
      reject(plan, {.rule = kOutOfHostMemory,
                    .strategy = strategy,
                    .needed = memory.host.node,
                    .available = memory.host.capacity});
      return;
    }
    ++plan.feasible;
    candidates.push_back(
        {.strategy = strategy, .time = step_time(run, layers), .peak = memory.peak});
  });
  return candidates;
}

}  // namespace

Plan plan(const PlanQuery& query) {
  query.base.model.validate();
  Plan plan;
  Bases bases = bases_of(query);
  std::vector<Candidate> candidates = candidates_of(query, bases, plan);
  const auto prediction_of = [&](const Candidate& one) {
    return predict(run_under(bases, query, one.strategy));
  };
  const auto faster = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.peak) < std::tie(b.time, b.peak);
  };
  const auto smaller = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.peak, a.time) < std::tie(b.peak, b.time);
  };
  if (query.objective == Objective::Memory) {
    std::sort(candidates.begin(), candidates.end(), smaller);
  } else {
    std::sort(candidates.begin(), candidates.end(), faster);
  }
  const std::size_t count =
      std::min(candidates.size(), static_cast<std::size_t>(std::max(1, query.top)));
  for (std::size_t i = 0; i < count; ++i) plan.plans.push_back(prediction_of(candidates[i]));
  // From the fastest on, every candidate that is smaller than all faster ones.
  std::sort(candidates.begin(), candidates.end(), faster);
  Bytes smallest{1e300};
  for (const Candidate& candidate : candidates) {
    if (candidate.peak >= smallest) continue;
    smallest = candidate.peak;
    plan.pareto.push_back(prediction_of(candidate));
  }
  return plan;
}

}  // namespace llmsim::sim
