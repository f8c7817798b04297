#include "sim/search/searcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "sim/memory/footprint.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/update.h"
#include "sim/schedule/step.h"
#include "sim/strategy/layout_ratio.h"
#include "sim/strategy/validity.h"

namespace llmsim::sim {
namespace {

constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfHostMemory = "out of host memory";

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

constexpr Bytes kUnbounded{std::numeric_limits<double>::infinity()};

// What the nearest that is out of memory needs.
Bytes nearest_in(const Plan& plan) {
  for (const NearestMiss& known : plan.nearest)
    if (known.rule == kOutOfMemory) return known.needed;
  return kUnbounded;
}

NearestMiss out_of_memory(const Run& run, const Memory& memory) {
  return {.rule = kOutOfMemory,
          .strategy = run.strategy,
          .needed = memory.needed(),
          .available = memory.capacity,
          .fit_probability = memory.fit_probability()};
}

std::optional<NearestMiss> missed(const Run& run, const Memory& memory, Bytes room) {
  if (memory.needed() > room) return out_of_memory(run, memory);
  if (memory.host.fits()) return std::nullopt;
  return NearestMiss{.rule = kOutOfHostMemory,
                     .strategy = run.strategy,
                     .needed = memory.host.node,
                     .available = memory.host.capacity};
}

}  // namespace

const LayoutPrices& Searcher::prices_of(const SearchNode& node, const ShardingSearch& sharding) {
  return prices_.of(node.layout, node.shape, sharding.base, node.recompute,
                    [&] { return strategy(node, sharding.choice); });
}

Strategy Searcher::strategy(const SearchNode& node, const SearchSharding& sharding) const {
  return problem_.space.strategy(node.layout, node.pipeline->choice, sharding,
                                 problem_.space.recomputes()[node.recompute]);
}

std::vector<std::size_t> Searcher::ways_of(const SearchLayout& layout) const {
  std::vector<std::size_t> ways;
  const std::vector<Recompute>& recomputes = problem_.space.recomputes();
  for (std::size_t way = 0; way < recomputes.size(); ++way) {
    if (problem_.space.go_together(layout, recomputes[way])) ways.push_back(way);
  }
  return ways;
}

std::size_t Searcher::leaves(const SearchLayout& layout) const {
  const std::vector<AllowedPipeline>& all = problem_.pipelines.at(layout.pp);
  const auto pipelines = std::count_if(all.begin(), all.end(), [&](const AllowedPipeline& one) {
    return problem_.space.go_together(layout, one.choice);
  });
  return static_cast<std::size_t>(pipelines) * problem_.space.shardings(layout).size() *
         ways_of(layout).size();
}

namespace {

// Whether a switch is another, between whose values what a step takes at least differs.
bool have_other_bounds(const SearchLayout& one, const SearchLayout& other) {
  const std::vector<SearchedField>& fields = searched_fields();
  return std::any_of(fields.begin(), fields.end(), [&](const SearchedField& field) {
    return field.has_bounds && switch_value(field, one) != switch_value(field, other);
  });
}

}  // namespace

Searcher::StepBounds Searcher::bounds(const LayoutRange& layouts) {
  const Transformer& model = problem_.base.model;
  std::vector<bool> done(2 * problem_.bases.size());  // without and with pipelines
  const SearchLayout* before = nullptr;
  const auto least = [](double& known, double value) {
    known = known == 0.0 ? value : std::min(known, value);
  };
  double compute = 0.0, all = 0.0, steps = 0.0;
  for (std::size_t i = layouts.first; i < layouts.last; ++i) {
    const SearchLayout& layout = problem_.layouts[i];
    if (broken_layout(problem_, layout)) continue;
    if (before && have_other_bounds(*before, layout)) done.assign(done.size(), false);
    before = &layout;
    const double batches = static_cast<double>(problem_.base.strategy.global_batch) /
                           (static_cast<double>(layout.dp) * layout.pp * layout.micro_batch);
    least(steps, batches);
    for (const SearchSharding& sharding : problem_.space.shardings(layout)) {
      const std::size_t prices = 2 * problem_.bases[index_of(sharding.sharding)].prices +
                                 (model.tied_embeddings && layout.pp > 1 ? 1 : 0);
      if (done[prices]) continue;
      done[prices] = true;
      const Run& run = prices_.run_of(
          problem_.space.strategy(layout, {}, sharding, {.kind = RecomputeKind::None}));
      const LayerBounds layers = layer_bounds(run, prices_.times_of(run, layout, prices));
      LayerSums once{.embedding = 1.0, .head = 1.0};
      for_each_kind(count_layers(model, 0, model.num_layers),
                    [&](std::size_t slot, int count) { once.blocks[slot] = count; });
      least(compute, once.times(layers.compute));
      least(all, once.times(layers.forward) + once.times(layers.backward) -
                     once.times(layers.all_to_all));
    }
  }
  const double whole = (1.0 - kBoundRounding) * steps;
  return {.compute = Seconds(whole * compute), .all = Seconds(whole * all)};
}

namespace {

// Bytes of activations of a block for each value of its input, 34 without recomputation, of which
// 24 are divided over tensor ranks and the others with sequence parallelism.
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// arXiv 2205.05198, section 4, without attention's scores.
double activation_bytes(const SearchLayout& layout) {
  constexpr double kAll = 34.0, kDivided = 24.0;
  return layout.sequence_parallel ? kAll / layout.tp : kAll - kDivided + kDivided / layout.tp;
}

constexpr double kRecomputed = 4.0 / 3.0;  // passes of a block whose forward pass runs again
constexpr double kTooLarge = 4.0;

}  // namespace

// By the bubble of as many virtual stages as there are layers, and by the recomputation without
// which a stage's states and activations have no room.  An estimate: nothing but the order of the
// search comes from it.
double Searcher::expected_slowdown(const SearchLayout& layout) const {
  const Run& base = problem_.query.base;
  const Transformer& model = base.model;
  const RankParameters rank = rank_parameters(
      model, problem_.space.strategy(layout, {}, {}, problem_.space.recomputes().front()));
  const ParameterStorage storage = storage_of(base.strategy, base.framework);
  const double layers = model.num_layers, data = layout.dp * layout.cp,
               microbatches = static_cast<double>(base.strategy.global_batch) /
                              (static_cast<double>(layout.dp) * layout.micro_batch);
  const double parameters = layers / layout.pp * rank.largest_block();
  const double kept = storage.weight_bytes + storage.gradient_bytes,
               owned = storage.master_bytes +
                       state_bytes_per_parameter(base.strategy.optimizer, storage);
  const bool shards_all =
      problem_.base.offers.zero3 && (layout.pp == 1 || problem_.base.offers.zero3_in_pipelines);
  const double states = parameters * ((shards_all ? kept / data : kept) + owned / data);
  const double input = static_cast<double>(layout.micro_batch) * model.seq_len / layout.cp *
                       model.hidden_size * layers,
               room = base.cluster.device.usable_memory.value() - states;
  const double stages = layout.pp, chunks = microbatches < stages ? 1.0 : layers / stages;
  const double bubble = 1.0 + (stages - 1.0) / (microbatches * std::max(1.0, chunks));
  if (room > input * activation_bytes(layout)) return bubble;
  return bubble * (room > input * 2.0 / (layout.sequence_parallel ? layout.tp : 1) ? kRecomputed
                                                                                   : kTooLarge);
}

void Searcher::set_rank(const SearchLayout& layout) {
  const Run& run = prices_.run_of(problem_.space.strategy(layout, {}, {}, Recompute{}));
  rank_ = rank_parameters(run.model, run.strategy);
}

void Searcher::bound_memory(LayoutGroup& group) {
  group.least = kUnbounded;
  for (const LayoutRange& variant : group.variants) {
    bool ranked = false;
    for (std::size_t i = variant.first; i < variant.last; ++i) {
      const SearchLayout& layout = problem_.layouts[i];
      if (broken_layout(problem_, layout)) continue;
      if (!std::exchange(ranked, true)) set_rank(layout);
      for (const SearchSharding& sharding : problem_.space.shardings(layout))
        group.least = std::min(group.least, least_needed(layout, sharding));
    }
  }
}

// What a layout costs beside its time, at least.
double Searcher::price_of(const SearchLayout& layout) const {
  return (1.0 - kBoundRounding) * problem_.costs.least_after(SearchLevel::Layout) *
         problem_.costs.of(SearchLevel::Layout,
                           problem_.space.strategy(layout, {}, {}, Recompute{}));
}

void Searcher::bound(LayoutGroup& group) {
  bound_memory(group);
  if (!found_.ranking.may_fit(group.least)) {
    group.expected = Seconds(std::numeric_limits<double>::infinity());
    return;
  }
  const StepBounds bounds =
      this->bounds({group.variants.front().first, group.variants.back().last});
  group.bound = group.variants.size() > 1 ? bounds.compute : bounds.all;
  double slowdown = kTooLarge;
  const LayoutRange& first = group.variants.front();
  group.price = std::numeric_limits<double>::infinity();
  for (std::size_t i = first.first; i < group.variants.back().last; ++i) {
    const SearchLayout& layout = problem_.layouts[i];
    const double price = price_of(layout);
    group.price = std::min(group.price, price);
    if (i < first.last) slowdown = std::min(slowdown, price * expected_slowdown(layout));
  }
  group.expected = slowdown * bounds.all;
}

void Searcher::search(const LayoutGroup& group) {
  {
    const std::lock_guard lock(problem_.telling);
    ranking_ = found_.ranking;
    nearest_ = nearest_in(found_.plan);
  }
  for (const LayoutRange& variant : group.variants) {
    const bool is_known = group.variants.size() == 1 || !ranking_.asks_times() ||
                          !ranking_.may_fit(group.least) ||
                          !ranking_.may_matter({group.bound, group.price}, Bytes(0.0));
    search_variant(variant, is_known ? group.bound : bounds(variant).all);
  }
  tell();
}

void Searcher::search_variant(const LayoutRange& layouts, Seconds least) {
  prices_.forget();
  bool ranked = false;
  for (std::size_t i = layouts.first; i < layouts.last; ++i) {
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
    const double price = price_of(layout);
    if (!ranking_.may_matter({least, price}, Bytes(0.0))) {
      plan_.pruned += count;
      continue;
    }
    if (!std::exchange(ranked, true)) set_rank(layout);
    search(layout, price);
  }
  evaluate_candidates();
}

void Searcher::tell() {
  const std::lock_guard lock(problem_.telling);
  found_.ranking.add(ranking_);
  if (too_large_ > 0) plan_.rejected[kOutOfMemory] += std::exchange(too_large_, 0);
  add(found_.plan, std::exchange(plan_, {}));
}

ShardingSearch Searcher::sharding_search(const SearchLayout& layout, const SearchSharding& choice) {
  const Run& run = prices_.run_of(
      problem_.space.strategy(layout, {.embeddings_as_layers = true}, choice, Recompute{}));
  return {.choice = choice,
          .base = problem_.bases[index_of(choice.sharding)].prices,
          .rule = broken_in_all_pipelines(problem_, run.strategy),
          .price = problem_.costs.of(SearchLevel::Sharding, run.strategy),
          .shape = step_shape(run)};
}

void Searcher::search(const SearchLayout& layout, double price) {
  SearchNode node{layout};
  node.layout_price = price / problem_.costs.least_after(SearchLevel::Layout);
  node.context =
      context_memory(prices_.run_of(problem_.space.strategy(layout, {}, {}, Recompute{})));
  node.ways = ways_of(layout);
  const std::vector<SearchSharding> shardings = problem_.space.shardings(layout);
  const std::size_t count = leaves(layout) / shardings.size();
  for (const SearchSharding& sharding : shardings) {
    if (is_too_large(least_needed(layout, sharding)))
      too_large_ += count;
    else
      node.shardings.push_back(sharding_search(layout, sharding));
  }
  if (node.shardings.empty()) return;
  for (const AllowedPipeline& pipeline : problem_.pipelines.at(layout.pp)) {
    if (!problem_.space.go_together(layout, pipeline.choice)) continue;
    node.pipeline = &pipeline;
    search_pipeline(node);
  }
}

void Searcher::reject_rule(const char* rule, const SearchNode& node, const SearchSharding& sharding,
                           std::size_t count) {
  reject(plan_, {.rule = rule, .strategy = strategy(node, sharding), .needed = {}, .available = {}},
         count);
}

void Searcher::search_pipeline(SearchNode& node) {
  node.recompute = node.ways.front();
  const Strategy plain = strategy(node, {});
  if (const char* rule = broken_rule_name(problem_.base.model, plain, problem_.base.num_devices)) {
    reject_rule(rule, node, node.shardings.front().choice,
                node.shardings.size() * node.ways.size());
    return;
  }
  for (const ShardingSearch& sharding : node.shardings) {
    if (sharding.rule) reject_rule(sharding.rule, node, sharding.choice, node.ways.size());
  }
  node.shape = pipeline_shape(plain);
  node.idea = idea_of(plain);
  node.price = node.layout_price * problem_.costs.of(SearchLevel::Pipeline, plain);
  states_.assign(node.shardings.size(), {});
  costs_.assign(node.shardings.size(), std::nullopt);
  parameters_ = stage_parameters(rank_, *node.pipeline->counts);
  passes_ = passes_in_flight(node.shape, *node.pipeline->counts);
  activation_bounds(node.shape, passes_, *node.pipeline->counts, node.recompute,
                    output_bounds(prices_.run_of(plain)), activations_);
  if (!leave_out_shardings(node)) return;
  for (const std::size_t way : node.ways) {
    node.recompute = way;
    search_shardings(node);
  }
}

// Of the pipeline under a sharding, however it recomputes.
const std::vector<StateBounds>& Searcher::states_of(const SearchNode& node, std::size_t sharding) {
  std::vector<StateBounds>& states = states_[sharding];
  if (states.empty())
    states = state_bounds(prices_.run_of(strategy(node, node.shardings[sharding].choice)), rank_,
                          parameters_);
  return states;
}

// Those that need too much or take too long whatever is recomputed.  False: all.
bool Searcher::leave_out_shardings(const SearchNode& node) {
  left_out_.assign(node.shardings.size(), false);
  const LayoutPrices* prices = nullptr;
  const StepShape* shape = nullptr;
  Seconds passes;
  bool some = false;
  for (std::size_t i = 0; i < node.shardings.size(); ++i) {
    const ShardingSearch& sharding = node.shardings[i];
    if (sharding.rule) continue;
    left_out_[i] = is_too_large(peak_bound(states_of(node, i), activations_) + node.context);
    if (left_out_[i]) {
      too_large_ += node.ways.size();
      continue;
    }
    const LayoutPrices& own = prices_of(node, sharding);
    if (&own != prices || !(*shape == sharding.shape))
      passes = step_bound(sharding.shape, *node.pipeline->counts, node.recompute,
                          without_recomputation(own.bounds), nullptr);
    prices = &own, shape = &sharding.shape;
    const double price =
        node.price * sharding.price * problem_.costs.least_after(SearchLevel::Sharding);
    left_out_[i] = !ranking_.may_matter({passes, price}, Bytes(0.0));
    if (left_out_[i]) plan_.pruned += node.ways.size();
    some = some || !left_out_[i];
  }
  return some;
}

bool Searcher::is_nearer(Bytes needed) const {
  return needed < std::min(nearest_, nearest_in(plan_));
}

// Whether strategies that need so much at least may be left out and counted, however fast they are.
bool Searcher::is_too_large(Bytes needed) const {
  return needed > found_.ranking.room() && !ranking_.may_nearly_fit({}, needed) &&
         (!ranking_.empty() || !is_nearer(needed));
}

// One stage's blocks, but for the last, whose output the head may do without.
double Searcher::least_outputs(const Run& run) const {
  const LayerBounds layers = output_bounds(run);
  const double blocks = static_cast<double>(problem_.whole_model.blocks) / run.strategy.pp - 1.0;
  return layers.activations_leave ? 0.0 : std::max(0.0, blocks) * layers.left.blocks.front();
}

// By states and the outputs of blocks, whatever the pipeline: its fullest stage holds an even share
// of the model at least, states are sums over what is held, and of the passes of one micro-batch
// the outputs are there when the first backward pass begins.
Bytes Searcher::least_needed(const SearchLayout& layout, const SearchSharding& sharding) {
  const Run& run = prices_.run_of(problem_.space.strategy(layout, {}, sharding, Recompute{}));
  const StageParameters share = (1.0 / layout.pp) * held_parameters(rank_, problem_.whole_model);
  const PeakCorrection& measured = run.measured_peaks;
  const double factor =
      measured.empty() ? 1.0 : std::exp(measured.least_log_factor(traits_of(run.strategy)));
  return factor * peak_bound(state_bounds(run, rank_, {share}), {{.first = least_outputs(run)}}) +
         context_memory(run);
}

// By its bounds.  How near one is that does not fit matters while nothing does.
template <class StrategyOf>
void Searcher::leave_out(Bytes needed, const LayoutPrices& prices, const StrategyOf& strategy) {
  if (needed <= found_.ranking.room()) {
    ++plan_.pruned;
  } else if (!ranking_.empty() || !is_nearer(needed)) {
    ++too_large_;
  } else {
    const Run& run = prices_.run_of(strategy());
    reject(plan_, out_of_memory(run, memory_footprint(run, *prices.layers, MemoryStages::Fullest)));
  }
}

void Searcher::search_shardings(const SearchNode& node) {
  const StageCounts& counts = *node.pipeline->counts;
  const double recompute_price = recompute_prices_[node.recompute];
  const LayoutPrices *prices = nullptr, *timed = nullptr;  // of the activations and of `passes`
  const StepShape* shape = nullptr;
  Seconds passes;
  for (std::size_t i = 0; i < node.shardings.size(); ++i) {
    const ShardingSearch& sharding = node.shardings[i];
    if (sharding.rule || left_out_[i]) continue;
    const LayoutPrices& own = prices_of(node, sharding);
    if (&own != timed || !(*shape == sharding.shape))
      passes = step_bound(sharding.shape, counts, node.recompute, own.bounds, nullptr);
    timed = &own, shape = &sharding.shape;
    const double price = node.price * sharding.price * recompute_price;
    if (!ranking_.may_matter({passes, price}, Bytes(0.0))) {
      ++plan_.pruned;
      continue;
    }
    if (&own != prices)
      activation_bounds(node.shape, passes_, counts, node.recompute, own.bounds, activations_);
    prices = &own;
    search_sharding(node, i, own, {passes, price});
  }
}

// Of what is allocated, as measured peaks of the cluster have it.
template <class StrategyOf>
double Searcher::measured_factor(const StrategyOf& strategy) const {
  const PeakCorrection& measured = problem_.query.base.measured_peaks;
  return measured.empty() ? 1.0 : std::exp(measured.log_factor(traits_of(strategy())));
}

// Whose passes alone take `passes` at least, and whose activations are those at hand.
void Searcher::search_sharding(const SearchNode& node, std::size_t number,
                               const LayoutPrices& prices, const LeastCost& passes) {
  const ShardingSearch& sharding = node.shardings[number];
  const StageCounts& counts = *node.pipeline->counts;
  const auto own_strategy = [&] { return strategy(node, sharding.choice); };
  const Bytes peak =
                  measured_factor(own_strategy) * peak_bound(states_of(node, number), activations_),
              needed = peak + node.context;
  if (needed > found_.ranking.room() && !ranking_.may_nearly_fit(passes, needed))
    return leave_out(needed, prices, own_strategy);
  Idea idea = node.idea;
  idea.sharding = sharding.choice.sharding;
  if (!ranking_.may_matter(idea, passes, peak, needed))
    return leave_out(needed, prices, own_strategy);
  std::optional<ShardingCosts>& costs = costs_[number];
  if (!costs) costs = sharding_costs(prices_.run_of(own_strategy()), rank_, counts);
  const LeastCost bound{step_bound(sharding.shape, counts, node.recompute, prices.bounds, &*costs),
                        passes.price};
  if (!ranking_.may_matter(idea, bound, peak, needed))
    return leave_out(needed, prices, own_strategy);
  candidates_.push_back({.bound = bound,
                         .peak = peak,
                         .needed = needed,
                         .idea = idea,
                         .layout = &node.layout,
                         .pipeline = node.pipeline,
                         .sharding = sharding.choice,
                         .recompute = node.recompute,
                         .prices = &prices});
}

// In the order of their bounds: what comes first is likely to be so good that most others need not
// be looked at.
void Searcher::evaluate_candidates() {
  const bool by_time = ranking_.asks_times();
  std::stable_sort(
      candidates_.begin(), candidates_.end(), [&](const Candidate& one, const Candidate& other) {
        return by_time ? one.bound.cost() < other.bound.cost() : one.needed < other.needed;
      });
  for (const Candidate& one : candidates_) {
    if (ranking_.may_matter(one.idea, one.bound, one.peak, one.needed)) {
      evaluate(one);
    } else {
      leave_out(one.needed, *one.prices, [&] { return strategy(one); });
    }
  }
  candidates_.clear();
}

Strategy Searcher::strategy(const Candidate& candidate) const {
  return problem_.space.strategy(*candidate.layout, candidate.pipeline->choice, candidate.sharding,
                                 problem_.space.recomputes()[candidate.recompute]);
}

// Its passes give a closer bound, which costs less than the walk through its memory.
void Searcher::evaluate(const Candidate& candidate) {
  const Run& run = prices_.run_of(strategy(candidate));
  const LayerPrices& prices = *candidate.prices->layers;
  const StageContents contents(run, candidate.pipeline->counts->shared_stages(),
                               rank_parameters(run.model, run.strategy));
  SharedPasses passes(run, contents.rank());
  StepSimulation step(run, prices, contents, passes);
  const LeastCost bound{step.bound(), candidate.bound.price};
  if (!ranking_.may_matter(candidate.idea, bound, candidate.peak, candidate.needed)) {
    leave_out(candidate.needed, *candidate.prices, [&] { return run.strategy; });
    return;
  }
  const PlanQuery& query = problem_.query;
  if (query.admits && !query.admits(run.strategy)) {
    reject(plan_, {.rule = query.rule, .strategy = run.strategy, .needed = {}, .available = {}});
    return;
  }
  const Memory memory = memory_footprint(run, prices, contents, MemoryStages::Fullest);
  RankedStrategy ranked{.strategy = run.strategy,
                        .price = problem_.costs.of(run.strategy),
                        .peak = memory.peak,
                        .needed = memory.needed()};
  if (const std::optional<NearestMiss> miss = missed(run, memory, found_.ranking.room())) {
    reject(plan_, *miss);
    if (!memory.host.fits() || !ranking_.may_nearly_fit(bound, ranked.needed)) return;
    step.simulate();
    ranked.time = step.terms().total();
    ranking_.add_unfitting(ranked);
    return;
  }
  ++plan_.feasible;
  if (bound.time > ranking_.longest_time(ranked)) return;
  ++plan_.priced;
  step.simulate();
  ranked.time = step.terms().total();
  ranking_.add(ranked);
}

}  // namespace llmsim::sim
