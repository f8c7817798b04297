#include "sim/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <tuple>

#include "sim/base/student.h"
#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/ranking.h"
#include "sim/schedule/step.h"
#include "sim/search_bounds.h"

namespace llmsim::sim {
namespace {

constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfHostMemory = "out of host memory";

// The run under one sharding, and the first sharding whose layer prices it shares.
struct Base {
  Run run;
  std::size_t prices;
};

using Bases = std::vector<Base>;  // by Sharding

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

Bases bases_of(const PlanQuery& query) {
  Bases bases;
  for (const Sharding sharding : kAllShardings) {
    bases.push_back({.run = run_under(query, sharding), .prices = 0});
    Base& base = bases.back();
    base.run.model = query.base.model;
    while (!shares_prices(bases[base.prices].run, kAllShardings[base.prices], base.run, sharding))
      ++base.prices;
  }
  return bases;
}

std::size_t index_of(Sharding sharding) { return static_cast<std::size_t>(sharding); }

// A pipeline that the layers of the model allow.
struct Pipeline {
  SearchPipeline choice;
  std::optional<StageCounts> counts{};  // none: more parts than layers
};

// Layouts that share the prices of layers, and what their step takes at least.
struct Group {
  std::size_t first = 0, last = 0;  // of the layouts
  Seconds bound{};
};

auto group_key(const SearchLayout& layout) {
  return std::tuple(layout.tp, layout.cp, layout.ep, layout.etp, layout.sequence_parallel,
                    layout.micro_batch);
}

// What is searched, the same for all threads.
struct Problem {
  const PlanQuery& query;
  Bases bases;
  SearchBase base;
  SearchSpace space;
  std::vector<SearchLayout> layouts{};
  std::vector<Group> groups{};
  std::map<int, std::vector<Pipeline>> pipelines{};  // by pp
  mutable std::mutex telling{};                      // of what is found

  explicit Problem(const PlanQuery& of)
      : query(of), bases(bases_of(of)), base(search_base(of)), space(base, of.restriction) {}
  Problem(const Problem&) = delete;
};

// Whether the stages of a pipeline can be given their layers, whatever surrounds them.
bool deals_layers(const Transformer& model, Strategy pipeline) {
  pipeline.etp.reset();  // of tensor ranks that a pipeline alone does not have
  return !broken_rule_name(model, pipeline, pipeline.num_devices());
}

void add_pipelines(Problem& problem, int pp) {
  std::vector<Pipeline>& pipelines = problem.pipelines[pp];
  if (!pipelines.empty()) return;
  for (const SearchPipeline& choice : problem.space.pipelines(pp)) {
    Pipeline& pipeline = pipelines.emplace_back(Pipeline{choice});
    const Strategy strategy =
        problem.space.strategy({.pp = pp}, choice, {}, problem.space.recomputes().front());
    const int layers = problem.base.model.num_layers + (choice.embeddings_as_layers ? 2 : 0);
    if (stage_layout(strategy).parts() <= layers &&
        (strategy.stage_layers.empty() || deals_layers(problem.base.model, strategy)))
      pipeline.counts.emplace(problem.base.model, strategy, problem.space.recomputes());
  }
}

void add_groups(Problem& problem) {
  problem.layouts = problem.space.layouts();
  std::stable_sort(problem.layouts.begin(), problem.layouts.end(),
                   [](const SearchLayout& one, const SearchLayout& other) {
                     return group_key(one) < group_key(other);
                   });
  for (std::size_t i = 0; i < problem.layouts.size(); ++i) {
    add_pipelines(problem, problem.layouts[i].pp);
    if (i == 0 || group_key(problem.layouts[i - 1]) != group_key(problem.layouts[i]))
      problem.groups.push_back({.first = i, .last = i});
    problem.groups.back().last = i + 1;
  }
}

// Answers of one thread, and how they become those of all.

void reject(Plan& plan, const NearestMiss& miss, std::size_t count = 1) {
  std::size_t& rejected = plan.rejected[miss.rule];
  rejected += count;
  const auto known =
      std::find_if(plan.nearest.begin(), plan.nearest.end(),
                   [&](const NearestMiss& other) { return other.rule == miss.rule; });
  if (known == plan.nearest.end()) {
    plan.nearest.push_back(miss);
  } else if (std::tuple(miss.needed, comes_first(known->strategy, miss.strategy)) <
             std::tuple(known->needed, comes_first(miss.strategy, known->strategy))) {
    *known = miss;
  }
}

void add(Plan& sum, const Plan& part) {
  sum.evaluated += part.evaluated, sum.feasible += part.feasible;
  sum.priced += part.priced, sum.pruned += part.pruned;
  for (const auto& [rule, count] : part.rejected) sum.rejected[rule] += count;
  for (const NearestMiss& miss : part.nearest) reject(sum, miss, 0);
}

// What all threads have found.
struct Found {
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
struct Node {
  const SearchLayout& layout;
  std::vector<ShardingSearch> shardings{};
  const Pipeline* pipeline = nullptr;
  PipelineShape shape{};
  Idea idea{};  // but for the sharding
  std::size_t recompute = 0;
};

// The search of one group after the other.
class Searcher {
 public:
  Searcher(const Problem& problem, Found& found)
      : problem_(problem), found_(found), bases_(problem.bases) {}

  // What the passes of a micro-batch through the whole model take at least, as a step.
  Seconds bound(const Group& group);
  void search(const Group& group);
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
  void search_pipeline(Node& node);
  void search_shardings(const Node& node);
  Strategy strategy(const Node& node, const SearchSharding& sharding) const;
  const Prices& prices_of(const Node& node, const ShardingSearch& sharding);
  ShardingSearch sharding_search(const SearchLayout& layout, const SearchSharding& choice);
  void reject_rule(const char* rule, const Node& node, const SearchSharding& sharding,
                   std::size_t count);
  void evaluate(const Strategy& strategy, const Prices& prices);
  void reject_unseen(const Node& node, const SearchSharding& sharding, const Prices& prices,
                     Bytes bound);
  bool is_nearer(Bytes needed) const;

  const Problem& problem_;
  Found& found_;
  Bases bases_;
  Ranking ranking_{RankingRules{}};  // that of all threads, with what this group has found
  Plan plan_{};
  RankParameters rank_{};
  std::vector<Prices> prices_;               // of the group
  std::vector<StageParameters> parameters_;  // of the pipeline
  std::vector<PassesInFlight> passes_;
  std::vector<StageActivations> activations_;
  std::vector<std::optional<ShardingCosts>> costs_;
};

// The run of a strategy, in the place of the last one under its sharding.
Run& Searcher::run_of(const Strategy& strategy) {
  Run& run = bases_[index_of(strategy.sharding)].run;
  run.strategy = strategy;
  run.model.vocab_size = problem_.query.base.model.vocab_size;
  run.model.vocab_size = trained_vocab_size(run);
  return run;
}

const Searcher::Prices& Searcher::prices_of(const Node& node, const ShardingSearch& sharding) {
  const std::size_t ways = problem_.space.recomputes().size();
  const auto begin = (sharding.base * kVariants + variant_of(node.shape)) * ways;
  Prices& prices = prices_[begin + node.recompute];
  if (prices.layers) return prices;
  const std::span<Prices> all(&prices_[begin], ways);
  const auto known = std::find_if(all.begin(), all.end(),
                                  [](const Prices& other) { return other.layers.has_value(); });
  const Run& run = run_of(strategy(node, sharding.choice));
  prices.layers = known == all.end() ? layer_prices(run) : layer_prices(run, *known->layers);
  prices.bounds = layer_bounds(run, *prices.layers);
  return prices;
}

Strategy Searcher::strategy(const Node& node, const SearchSharding& sharding) const {
  return problem_.space.strategy(node.layout, node.pipeline->choice, sharding,
                                 problem_.space.recomputes()[node.recompute]);
}

std::size_t Searcher::leaves(const SearchLayout& layout) const {
  return problem_.pipelines.at(layout.pp).size() * problem_.space.shardings(layout).size() *
         problem_.space.recomputes().size();
}

// The rule that a strategy breaks in every pipeline.
const char* broken_in_all_pipelines(const Problem& problem, Strategy strategy) {
  strategy.stage_layers.clear();  // has numbers for stages or for their chunks
  return broken_rule_name(problem.base.model, strategy, problem.base.num_devices);
}

// Whether every pipeline and sharding of a layout breaks a rule.
const char* broken_layout(const Problem& problem, const SearchLayout& layout) {
  return broken_in_all_pipelines(
      problem, problem.space.strategy(layout, {.embeddings_as_layers = true}, {}, Recompute{}));
}

Seconds Searcher::bound(const Group& group) {
  const Transformer& model = problem_.base.model;
  std::vector<bool> done(2 * bases_.size());  // without and with pipelines
  double work = 0.0, steps = 0.0;
  for (std::size_t i = group.first; i < group.last; ++i) {
    const SearchLayout& layout = problem_.layouts[i];
    if (broken_layout(problem_, layout)) continue;
    const double batches = static_cast<double>(problem_.base.strategy.global_batch) /
                           (static_cast<double>(layout.dp) * layout.pp * layout.micro_batch);
    steps = steps == 0.0 ? batches : std::min(steps, batches);
    for (const SearchSharding& sharding : problem_.space.shardings(layout)) {
      const std::size_t prices = 2 * bases_[index_of(sharding.sharding)].prices +
                                 (model.tied_embeddings && layout.pp > 1 ? 1 : 0);
      if (done[prices]) continue;
      done[prices] = true;
      const Run& run =
          run_of(problem_.space.strategy(layout, {}, sharding, {.kind = RecomputeKind::None}));
      const LayerBounds layers = layer_bounds(run, layer_prices(run));
      const double layers_moe = count_moe_layers(model, 0, model.num_layers),
                   layers_dense = model.num_layers - layers_moe;
      const LayerSums all{.dense = layers_dense, .moe = layers_moe, .embedding = 1.0, .head = 1.0};
      const double time =
          all.times(layers.forward) + all.times(layers.backward) - all.times(layers.all_to_all);
      work = work == 0.0 ? time : std::min(work, time);
    }
  }
  return Seconds((1.0 - kBoundRounding) * steps * work);
}

void Searcher::search(const Group& group) {
  {
    const std::lock_guard lock(problem_.telling);
    ranking_ = found_.ranking;
  }
  prices_.assign(bases_.size() * kVariants * problem_.space.recomputes().size(), Prices{});
  bool ranked = false;
  for (std::size_t i = group.first; i < group.last; ++i) {
    const SearchLayout& layout = problem_.layouts[i];
    const std::size_t count = leaves(layout);
    plan_.evaluated += count;
    if (count == 0) continue;
    if (const char* rule = broken_layout(problem_, layout)) {
      const Strategy strategy = problem_.space.strategy(
          layout, problem_.pipelines.at(layout.pp).front().choice,
          problem_.space.shardings(layout).front(), problem_.space.recomputes().front());
      reject(plan_, {.rule = rule, .strategy = strategy, .needed = {}, .available = {}}, count);
      continue;
    }
    if (!ranking_.may_matter(group.bound, Bytes(0.0))) {
      plan_.pruned += count;
      continue;
    }
    if (!std::exchange(ranked, true)) {
      const Run& run = run_of(problem_.space.strategy(layout, {}, {}, Recompute{}));
      rank_ = rank_parameters(run.model, run.strategy);
    }
    search(layout);
  }
  tell();
}

void Searcher::tell() {
  const std::lock_guard lock(problem_.telling);
  found_.ranking.add(ranking_);
  add(found_.plan, std::exchange(plan_, {}));
}

ShardingSearch Searcher::sharding_search(const SearchLayout& layout, const SearchSharding& choice) {
  const Run& run =
      run_of(problem_.space.strategy(layout, {.embeddings_as_layers = true}, choice, Recompute{}));
  return {.choice = choice,
          .base = bases_[index_of(choice.sharding)].prices,
          .rule = broken_in_all_pipelines(problem_, run.strategy),
          .states = state_bounds(run, rank_),
          .shape = step_shape(run)};
}

void Searcher::search(const SearchLayout& layout) {
  Node node{layout};
  for (const SearchSharding& sharding : problem_.space.shardings(layout))
    node.shardings.push_back(sharding_search(layout, sharding));
  for (const Pipeline& pipeline : problem_.pipelines.at(layout.pp)) {
    node.pipeline = &pipeline;
    search_pipeline(node);
  }
}

void Searcher::reject_rule(const char* rule, const Node& node, const SearchSharding& sharding,
                           std::size_t count) {
  reject(plan_, {.rule = rule, .strategy = strategy(node, sharding), .needed = {}, .available = {}},
         count);
}

void Searcher::search_pipeline(Node& node) {
  const std::size_t ways = problem_.space.recomputes().size();
  node.recompute = 0;
  const Strategy plain = strategy(node, {});
  if (const char* rule = broken_rule_name(problem_.base.model, plain, problem_.base.num_devices)) {
    reject_rule(rule, node, node.shardings.front().choice, node.shardings.size() * ways);
    return;
  }
  for (const ShardingSearch& sharding : node.shardings) {
    if (sharding.rule) reject_rule(sharding.rule, node, sharding.choice, ways);
  }
  node.shape = pipeline_shape(plain);
  node.idea = idea_of(plain);
  parameters_ = stage_parameters(rank_, *node.pipeline->counts);
  passes_ = passes_in_flight(node.shape, *node.pipeline->counts);
  costs_.assign(node.shardings.size(), std::nullopt);
  for (; node.recompute < ways; ++node.recompute) search_shardings(node);
}

void Searcher::search_shardings(const Node& node) {
  const StageCounts& counts = *node.pipeline->counts;
  const Prices *prices = nullptr, *timed = nullptr;  // of the activations and of `passes`
  const StepShape* shape = nullptr;
  Seconds passes;
  for (std::size_t i = 0; i < node.shardings.size(); ++i) {
    const ShardingSearch& sharding = node.shardings[i];
    if (sharding.rule) continue;
    const Prices& own = prices_of(node, sharding);
    if (&own != timed || !(*shape == sharding.shape))
      passes = step_bound(sharding.shape, counts, node.recompute, own.bounds, nullptr);
    timed = &own, shape = &sharding.shape;
    if (!ranking_.may_matter(passes, Bytes(0.0))) {
      ++plan_.pruned;
      continue;
    }
    if (&own != prices)
      activation_bounds(node.shape, passes_, counts, node.recompute, own.bounds, activations_);
    prices = &own;
    const Bytes peak = peak_bound(sharding.states, parameters_, activations_);
    if (peak > problem_.query.base.cluster.device.usable_memory) {
      reject_unseen(node, sharding.choice, own, peak);
      continue;
    }
    Idea idea = node.idea;
    idea.sharding = sharding.choice.sharding;
    bool matters = ranking_.may_matter(idea, passes, peak);
    if (matters && !costs_[i])
      costs_[i] = sharding_costs(run_of(strategy(node, sharding.choice)), rank_, counts);
    matters = matters &&
              ranking_.may_matter(
                  idea, step_bound(sharding.shape, counts, node.recompute, own.bounds, &*costs_[i]),
                  peak);
    if (matters) {
      evaluate(strategy(node, sharding.choice), own);
    } else {
      ++plan_.pruned;
    }
  }
}

bool Searcher::is_nearer(Bytes needed) const {
  for (const NearestMiss& known : plan_.nearest) {
    if (known.rule == kOutOfMemory) return needed < known.needed;
  }
  return true;
}

// Of one that does not fit, as its bound proves.  How near it is matters while nothing fits.
void Searcher::reject_unseen(const Node& node, const SearchSharding& sharding, const Prices& prices,
                             Bytes bound) {
  if (!ranking_.empty() || !is_nearer(bound)) {
    ++plan_.rejected[kOutOfMemory];
    return;
  }
  const Strategy too_large = strategy(node, sharding);
  const Memory memory = memory_footprint(run_of(too_large), *prices.layers, MemoryStages::Fullest);
  reject(plan_, {.rule = kOutOfMemory,
                 .strategy = too_large,
                 .needed = memory.needed(),
                 .available = memory.capacity});
}

void Searcher::evaluate(const Strategy& strategy, const Prices& prices) {
  const Run& run = run_of(strategy);
  const Memory memory = memory_footprint(run, *prices.layers, MemoryStages::Fullest);
  if (!memory.fits()) {
    reject(plan_, {.rule = kOutOfMemory,
                   .strategy = strategy,
                   .needed = memory.needed(),
                   .available = memory.capacity});
    return;
  }
  if (!memory.host.fits()) {
    reject(plan_, {.rule = kOutOfHostMemory,
                   .strategy = strategy,
                   .needed = memory.host.node,
                   .available = memory.host.capacity});
    return;
  }
  ++plan_.feasible;
  RankedStrategy ranked{.strategy = strategy, .peak = memory.peak, .needed = memory.needed()};
  const std::optional<Seconds> time =
      step_time_within(run, *prices.layers, ranking_.longest_time(ranked));
  if (!time) return;
  ++plan_.priced;
  ranked.time = *time;
  ranking_.add(ranked);
}

// Calls `work(searcher, i)` for all i below `count`, each on one of the threads.
template <class Work>
void in_parallel(const Problem& problem, Found& found, std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto run = [&] {
    try {
      Searcher searcher(problem, found);
      for (std::size_t i = next++; i < count; i = next++) work(searcher, i);
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
      next = count;
    }
  };
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const int asked = problem.query.threads;
  std::vector<std::thread> others;
  for (unsigned i = 1; i < (asked > 0 ? static_cast<unsigned>(asked) : cores); ++i)
    others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

RankingRules ranking_rules(const PlanQuery& query, double headroom) {
  const Bytes usable = query.base.cluster.device.usable_memory;
  return {.ideas = static_cast<std::size_t>(std::max(1, query.top)),
          .by_memory = query.objective == Objective::Memory,
          .has_front = query.pareto,
          .tie = query.tie,
          .limit = (1.0 - headroom) * usable,
          .enough = (1.0 - headroom_for(kSurely, query.base.framework.errors)) * usable};
}

Found search(Problem& problem, double headroom) {
  Found found{.ranking = Ranking(ranking_rules(problem.query, headroom))};
  const std::size_t all = problem.groups.size();
  std::size_t done = 0;
  std::atomic<bool> ended{false};
  in_parallel(problem, found, all, [&](Searcher& searcher, std::size_t i) {
    if (ended) return;
    searcher.search(problem.groups[i]);
    const std::lock_guard lock(problem.telling);
    if (problem.query.progress && !problem.query.progress(++done, all)) ended = true;
  });
  found.plan.headroom = headroom;
  found.plan.complete = !ended;
  return found;
}

// Whether a plan before it is faster by more than ratios are uncertain by and needs no more.
bool is_dominated(const Prediction& one, const std::vector<Prediction>& before, double tie) {
  return std::any_of(before.begin(), before.end(), [&](const Prediction& other) {
    return (1.0 + tie) * other.step_time < one.step_time &&
           other.memory.needed() <= one.memory.needed();
  });
}

Plan answer(const Problem& problem, Found& found) {
  Plan plan = std::move(found.plan);
  const auto prediction_of = [&](const RankedStrategy& one) {
    Run run = problem.bases[index_of(one.strategy.sharding)].run;
    run.strategy = one.strategy;
    return predict(run);
  };
  const RankedIdeas best = found.ranking.best();
  plan.ties = best.ties;
  for (const RankedStrategy& one : best.strategies) {
    Prediction prediction = prediction_of(one);
    const bool dominated = is_dominated(prediction, plan.plans, problem.query.tie);
    (dominated ? plan.others : plan.plans).push_back(std::move(prediction));
  }
  if (const auto tight = found.ranking.tight()) plan.tight = prediction_of(*tight);
  for (const RankedStrategy& one : found.ranking.front()) plan.pareto.push_back(prediction_of(one));
  return plan;
}

}  // namespace

const Run& run_under(const PlanQuery& query, Sharding sharding) {
  const auto found = query.under.find(sharding);
  return found == query.under.end() ? query.base : found->second;
}

SearchBase search_base(const PlanQuery& query) {
  SearchBase base{query.base.model,
                  query.base.cluster.num_devices,
                  query.base.strategy,
                  {},
                  query.base.framework.offers,
                  query.excluded};
  for (const Sharding sharding : kAllShardings)
    base.under[index_of(sharding)] = run_under(query, sharding).strategy;
  return base;
}

double headroom_for(double probability, const PredictionErrors& errors) {
  return 1.0 - std::exp(-errors.needed_memory * student_quantile(probability));
}

Plan plan(const PlanQuery& query) {
  query.base.model.validate();
  Problem problem(query);
  add_groups(problem);
  const double headroom =
      query.headroom.value_or(headroom_for(kLikely, query.base.framework.errors));
  {
    Found unranked{.ranking = Ranking(ranking_rules(query, headroom))};
    in_parallel(problem, unranked, problem.groups.size(), [&](Searcher& searcher, std::size_t i) {
      problem.groups[i].bound = searcher.bound(problem.groups[i]);
    });
  }
  std::stable_sort(problem.groups.begin(), problem.groups.end(),
                   [](const Group& one, const Group& other) { return one.bound < other.bound; });
  Found found = search(problem, headroom);
  if (headroom > 0.0 && found.plan.complete && found.ranking.best().strategies.empty())
    found = search(problem, 0.0);
  return answer(problem, found);
}

}  // namespace llmsim::sim
