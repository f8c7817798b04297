#include "sim/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <iterator>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "sim/base/uncertainty.h"
#include "sim/search/complete_search.h"
#include "sim/search/searcher.h"

namespace llmsim::sim {
namespace {

constexpr double kEqual = 1e-9;  // of times and memory

// Calls `work(searcher, i)` for all i below `count`, each on one of the threads.
template <class Work>
void in_parallel(const PlanProblem& problem, PlanFindings& found, std::size_t count,
                 const Work& work) {
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
          .enough = (1.0 - headroom_for(kSurely, query.base.framework.errors)) * usable,
          .usable = usable,
          .nearly = (1.0 + kNearlyFits) * usable};
}

using Groups = std::span<const LayoutGroup>;

// Until `goes_on()` ends it, which is false.
template <class GoesOn>
bool search_groups(const PlanProblem& problem, Groups groups, PlanFindings& found,
                   const GoesOn& goes_on) {
  std::atomic<bool> ended{false};
  in_parallel(problem, found, groups.size(), [&](Searcher& searcher, std::size_t i) {
    if (ended) return;
    searcher.search(groups[i]);
    const std::lock_guard lock(problem.telling);
    if (!goes_on()) ended = true;
  });
  return !ended;
}

// Whether any strategy needs at most so much: those whose states need least are asked first, and no
// times are.  False also where the query's progress ends it.
bool fits_within(const PlanProblem& problem, Bytes room) {
  PlanFindings found{.ranking = Ranking({.ideas = 1,
                                         .by_memory = true,
                                         .has_front = false,
                                         .limit = room,
                                         .enough = room,
                                         .usable = room,
                                         .nearly = room})};
  std::vector<LayoutGroup> groups = problem.groups;
  std::erase_if(groups, [&](const LayoutGroup& group) { return group.least > room; });
  std::stable_sort(
      groups.begin(), groups.end(),
      [](const LayoutGroup& one, const LayoutGroup& other) { return one.least < other.least; });
  const auto& progress = problem.query.progress;
  search_groups(problem, groups, found, [&] {
    return found.plan.feasible == 0 && (!progress || progress(0, groups.size()));
  });
  return found.plan.feasible > 0;
}

// With so much headroom, or without where nothing leaves it: once the groups that promise most have
// brought nothing, the question is asked of all, by memory alone.
PlanFindings search(const PlanProblem& problem, double headroom) {
  constexpr std::size_t kPromising = 64;
  const Groups all = problem.groups, first = all.first(std::min(kPromising, all.size()));
  std::size_t done = 0;
  const auto& progress = problem.query.progress;
  const auto goes_on = [&] { return !progress || progress(++done, all.size()); };
  const auto nothing = [&] {
    return PlanFindings{.ranking = Ranking(ranking_rules(problem.query, headroom))};
  };
  PlanFindings found = nothing();
  bool complete = search_groups(problem, first, found, goes_on);
  if (complete && headroom > 0.0 && found.ranking.best().empty() &&
      !fits_within(problem, ranking_rules(problem.query, headroom).limit)) {
    headroom = 0.0, done = 0;
    found = nothing();
    complete = search_groups(problem, first, found, goes_on);
  }
  complete = complete && search_groups(problem, all.subspan(first.size()), found, goes_on);
  found.plan.headroom = headroom;
  found.plan.complete = complete;
  return found;
}

// Whether a plan before it is clearly faster and needs no more, or equal to it but for a sharding
// that changes nothing.
bool is_needless(const Prediction& one, const std::vector<Prediction>& before) {
  const auto ranks = [](const Prediction& p) {
    Idea idea = idea_of(p.run.strategy);
    idea.sharding = Sharding::None;
    return idea;
  };
  const auto equal = [](double a, double b) { return std::abs(a - b) <= kEqual * b; };
  return std::any_of(before.begin(), before.end(), [&](const Prediction& other) {
    const Bytes needed = one.memory.needed(), known = other.memory.needed();
    const bool clearly = (1.0 + kClearlySlower) * other.step_time < one.step_time;
    return (clearly && known <= needed) ||
           (equal(one.step_time.value(), other.step_time.value()) &&
            equal(needed.value(), known.value()) && ranks(one) == ranks(other));
  });
}

// Those that beat the first: in time and memory, or surely in time, where that is asked for.
std::vector<Prediction> take_dearer(std::vector<Prediction>& plans, Objective objective) {
  if (plans.empty()) return {};
  const Prediction& first = plans.front();
  const auto dearer =
      std::stable_partition(plans.begin() + 1, plans.end(), [&](const Prediction& plan) {
        const bool smaller = plan.memory.needed() <= first.memory.needed(),
                   surely = objective != Objective::Memory &&
                            probability_faster(plan, first) >= kDecided;
        return !surely && (plan.step_time > first.step_time || !smaller);
      });
  std::vector<Prediction> taken(std::make_move_iterator(dearer),
                                std::make_move_iterator(plans.end()));
  plans.erase(dearer, plans.end());
  return taken;
}

// The first, and those after it of which it is not sure that they are slower.
std::size_t ties_of(const std::vector<Prediction>& plans) {
  const auto is_sure = [&](const Prediction& plan) {
    return probability_faster(plans.front(), plan) >= kDecided;
  };
  const auto rest = plans.begin() + (plans.empty() ? 0 : 1);
  return static_cast<std::size_t>(std::find_if(rest, plans.end(), is_sure) - plans.begin());
}

Prediction prediction_of(const PlanQuery& query, Run run, const Strategy& strategy) {
  run.strategy = strategy;
  if (query.laid_out) query.laid_out(run);
  return predict(run);
}

// The best of each idea, by what they cost as they are predicted.
std::vector<Prediction> predicted_ideas(const PlanQuery& query, const Ranking& ranking,
                                        const auto& predicted) {
  std::vector<std::pair<Seconds, Prediction>> ideas;
  for (const RankedStrategy& one : ranking.best()) {
    Prediction prediction = predicted(one);
    const Seconds cost = one.price * prediction.step_time;
    ideas.emplace_back(cost, std::move(prediction));
  }
  if (query.laid_out && query.objective != Objective::Memory)
    std::ranges::stable_sort(ideas, {}, &std::pair<Seconds, Prediction>::first);
  std::vector<Prediction> predictions;
  for (auto& [cost, prediction] : ideas) predictions.push_back(std::move(prediction));
  return predictions;
}

// Leaves what no other is both faster and smaller than.
void keep_front(std::vector<Prediction>& front) {
  std::ranges::stable_sort(front, {}, &Prediction::step_time);
  std::vector<Prediction> kept;
  for (Prediction& one : front)
    if (kept.empty() || one.memory.peak < kept.back().memory.peak) kept.push_back(std::move(one));
  front = std::move(kept);
}

Plan answer(const PlanProblem& problem, PlanFindings& found) {
  Plan plan = std::move(found.plan);
  const PlanQuery& query = problem.query;
  const auto predicted = [&](const RankedStrategy& one) {
    return prediction_of(query, problem.bases[index_of(one.strategy.sharding)].run, one.strategy);
  };
  for (Prediction& prediction : predicted_ideas(query, found.ranking, predicted)) {
    const bool needless = is_needless(prediction, plan.plans);
    (needless ? plan.others : plan.plans).push_back(std::move(prediction));
  }
  plan.dearer = take_dearer(plan.plans, query.objective);
  plan.ties = query.objective == Objective::Memory ? std::min<std::size_t>(1, plan.plans.size())
                                                   : ties_of(plan.plans);
  if (const auto tight = found.ranking.tight()) plan.tight = predicted(*tight);
  if (const auto nearly = found.ranking.nearly_fitting()) plan.nearly_fits = predicted(*nearly);
  for (const RankedStrategy& one : found.ranking.front()) plan.pareto.push_back(predicted(one));
  if (!query.laid_out) return plan;
  keep_front(plan.pareto);
  for (std::optional<Prediction>* beyond : {&plan.tight, &plan.nearly_fits}) {
    if (*beyond && !plan.plans.empty() && (*beyond)->step_time >= plan.plans.front().step_time)
      beyond->reset();
  }
  return plan;
}

}  // namespace

double probability_faster(const Prediction& one, const Prediction& other) {
  return probability_faster(one.run.framework.ratios, std::log(other.step_time / one.step_time),
                            traits_of(one.run.strategy), traits_of(other.run.strategy));
}

double headroom_for(double probability, const PredictionErrors& errors) {
  return 1.0 - std::exp(-errors.needed_memory * student_quantile(probability));
}

Plan plan(const PlanQuery& query) {
  query.base.model.validate();
  PlanProblem problem(query);
  const double headroom =
      query.headroom.value_or(headroom_for(kLikely, query.base.framework.errors));
  {
    PlanFindings unranked{.ranking = Ranking(ranking_rules(query, headroom))};
    in_parallel(problem, unranked, problem.groups.size(),
                [&](Searcher& searcher, std::size_t i) { searcher.bound(problem.groups[i]); });
  }
  std::stable_sort(problem.groups.begin(), problem.groups.end(),
                   [](const LayoutGroup& one, const LayoutGroup& other) {
                     return std::tuple(one.expected, one.least) <
                            std::tuple(other.expected, other.least);
                   });
  PlanFindings found = search(problem, headroom);
  return answer(problem, found);
}

bool fits_anywhere(const PlanQuery& query) {
  query.base.model.validate();
  PlanProblem problem(query);
  PlanFindings none{.ranking = Ranking(ranking_rules(query, 0.0))};
  in_parallel(problem, none, problem.groups.size(),
              [&](Searcher& searcher, std::size_t i) { searcher.bound_memory(problem.groups[i]); });
  return fits_within(problem, query.base.cluster.device.usable_memory);
}

bool price_space(const PlanQuery& query, const std::function<void(const PricedStrategy&)>& visit,
                 const std::function<std::pair<std::size_t, std::size_t>(std::size_t)>& groups_of) {
  query.base.model.validate();
  const PlanProblem problem(query);
  CompleteSearch search(problem);
  const auto [first, last] = groups_of ? groups_of(problem.groups.size())
                                       : std::pair(std::size_t{0}, problem.groups.size());
  for (std::size_t i = first; i < last; ++i) {
    search.search(problem.groups[i], [&](const CompleteStrategy& one) {
      PricedStrategy priced{
          .strategy = problem.space.strategy(one.layout, one.pipeline, one.sharding,
                                             problem.space.recomputes()[one.recompute]),
          .peak = one.peak,
          .needed = one.needed,
          .fits = one.fits,
          .step_time = one.time};
      if (query.laid_out && priced.step_time > Seconds(0.0))
        priced.step_time =
            prediction_of(query, run_under(query, priced.strategy.sharding), priced.strategy)
                .step_time;
      visit(priced);
    });
    if (query.progress && !query.progress(i + 1 - first, last - first)) return false;
  }
  return true;
}

}  // namespace llmsim::sim
