#include "sim/search/ranking.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "sim/search/searched_fields.h"

namespace llmsim::sim {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // of a quotient of costs

const std::vector<const SearchedField*>& fields_by_simplicity() {
  static const std::vector<const SearchedField*> order = [] {
    std::vector<const SearchedField*> fields;
    for (const SearchedField& field : searched_fields()) {
      if (field.value.of) fields.push_back(&field);
    }
    std::sort(fields.begin(), fields.end(),
              [](const SearchedField* one, const SearchedField* other) {
                return one->simplicity < other->simplicity;
              });
    return fields;
  }();
  return order;
}

bool cheaper(const RankedStrategy& one, const RankedStrategy& other) {
  const Seconds a = one.cost(), b = other.cost();
  if (a != b) return a < b;
  if (one.peak != other.peak) return one.peak < other.peak;
  return comes_first(one.strategy, other.strategy);
}

bool faster(const RankedStrategy& one, const RankedStrategy& other) {
  if (one.time != other.time) return one.time < other.time;
  if (one.peak != other.peak) return one.peak < other.peak;
  return comes_first(one.strategy, other.strategy);
}

}  // namespace

Idea idea_of(const Strategy& s) {
  return {.tp = s.tp,
          .pp = s.pp,
          .cp = s.cp,
          .ep = s.ep,
          .etp = s.expert_tensor_ranks(),
          .sharding = s.sharding,
          .schedule = s.pipeline_schedule == PipelineSchedule::Interleaved
                          ? PipelineSchedule::OneForwardOneBackward
                          : s.pipeline_schedule};
}

bool comes_first(const Strategy& one, const Strategy& other) {
  if (one.recompute != other.recompute) return one.recompute < other.recompute;
  for (const SearchedField* field : fields_by_simplicity()) {
    const auto of = field->labour ? field->labour : field->value.of;
    const std::int64_t a = of(one), b = of(other);
    if (a != b) return a < b;
  }
  return one.stage_layers < other.stage_layers;
}

Ranking::Ranking(const RankingRules& rules) : rules_(rules), last_(kAny) {
  rules_.ideas = std::max<std::size_t>(1, rules_.ideas);
  if (rules_.by_memory) rules_.tie = 0.0;
}

Ranking::Worth Ranking::worth(Seconds cost, Bytes needed) const {
  if (rules_.by_memory) return {needed.value(), cost.value()};
  return {cost.value(), std::max(needed, rules_.enough).value()};
}

// Total: of candidates of one idea.
bool Ranking::precedes(const RankedStrategy& one, const RankedStrategy& other) const {
  const Worth a = worth(one), b = worth(other);
  if (a.cost != b.cost) return a.cost < b.cost;
  if (a.spare != b.spare) return a.spare < b.spare;
  return comes_first(one.strategy, other.strategy);
}

void Ranking::add(const RankedStrategy& strategy) {
  if (rules_.has_front) add_to_front(strategy);
  if (strategy.needed <= rules_.limit)
    add_candidate(strategy);
  else if (!tight_ || cheaper(strategy, *tight_))
    tight_ = strategy;
}

void Ranking::add(const Ranking& other) {
  for (const auto& [idea, candidates] : other.ideas_)
    for (const RankedStrategy& one : candidates) add(one);
  for (const RankedStrategy& one : other.front_) add(one);
  if (other.tight_) add(*other.tight_);
  if (other.nearly_) add_unfitting(*other.nearly_);
}

void Ranking::add_unfitting(const RankedStrategy& strategy) {
  if (strategy.needed <= rules_.nearly && (!nearly_ || cheaper(strategy, *nearly_)))
    nearly_ = strategy;
}

void Ranking::add_candidate(const RankedStrategy& strategy) {
  const Worth own = worth(strategy);
  if (own.cost > within(last_)) return;
  Candidates& known = ideas_[idea_of(strategy.strategy)];
  const auto order = [&](const auto& a, const auto& b) { return precedes(a, b); };
  const auto place = std::upper_bound(known.begin(), known.end(), strategy, order);
  if (place != known.begin() &&
      (worth(*(place - 1)).spare <= own.spare || own.cost > within(cost_of(known))))
    return;
  auto last = place;
  while (last != known.end() && worth(*last).spare >= own.spare) ++last;
  known.insert(known.erase(place, last), strategy);
  const double most = within(cost_of(known));
  while (worth(known.back()).cost > most) known.pop_back();
  forget_slow_ideas();
}

// Of an idea that is slower than those that count only what may be a tie is kept: another strategy
// may still make the idea one of them.
void Ranking::forget_slow_ideas() {
  if (ideas_.size() < rules_.ideas) return;
  std::vector<double> costs;
  for (const auto& [idea, known] : ideas_) costs.push_back(cost_of(known));
  const auto place = costs.begin() + static_cast<std::ptrdiff_t>(rules_.ideas - 1);
  std::nth_element(costs.begin(), place, costs.end());
  last_ = *place;
  std::erase_if(ideas_, [&](const auto& idea) { return cost_of(idea.second) > within(last_); });
}

// Times ascend along the front, peaks descend.
void Ranking::add_to_front(const RankedStrategy& strategy) {
  const auto place = std::upper_bound(front_.begin(), front_.end(), strategy, faster);
  if (place != front_.begin() && (place - 1)->peak <= strategy.peak) return;
  auto last = place;
  while (last != front_.end() && last->peak >= strategy.peak) ++last;
  front_.insert(front_.erase(place, last), strategy);
}

double Ranking::least_cost() const {
  double least = kAny;
  for (const auto& [idea, known] : ideas_) least = std::min(least, cost_of(known));
  return least;
}

bool Ranking::may_be_tight(Seconds cost) const {
  return !rules_.by_memory && is_cheaper_than_fitting(cost);
}

bool Ranking::is_cheaper_than_fitting(Seconds cost) const {
  return cost.value() <= least_cost() && (!tight_ || cost <= tight_->cost());
}

bool Ranking::may_nearly_fit(const LeastCost& least, Bytes needed) const {
  return !rules_.by_memory && needed <= rules_.nearly &&
         (!nearly_ || least.cost() <= nearly_->cost()) && is_cheaper_than_fitting(least.cost());
}

bool Ranking::may_be_on_front(Seconds time, Bytes peak) const {
  if (!rules_.has_front) return false;
  const auto slower = std::partition_point(
      front_.begin(), front_.end(), [&](const RankedStrategy& known) { return known.time < time; });
  return slower == front_.begin() || (slower - 1)->peak > peak;
}

bool Ranking::may_be_best(const Candidates& idea, Worth least) const {
  if (least.cost > within(cost_of(idea))) return false;
  for (const RankedStrategy& known : idea) {
    const Worth other = worth(known);
    if (other.cost > least.cost) break;
    if (other.spare < least.spare || (other.spare == least.spare && other.cost < least.cost))
      return false;
  }
  return true;
}

bool Ranking::may_matter(const LeastCost& least, Bytes peak) const {
  return worth(least.cost(), peak).cost <= within(last_) || may_be_on_front(least.time, peak);
}

bool Ranking::may_matter(const Idea& idea, const LeastCost& bound, Bytes peak, Bytes needed) const {
  if (needed > rules_.usable) return may_nearly_fit(bound, needed);
  if (may_be_on_front(bound.time, peak)) return true;
  if (needed > rules_.limit) return may_be_tight(bound.cost());
  const Worth least = worth(bound.cost(), needed);
  if (least.cost > within(last_)) return false;
  const auto known = ideas_.find(idea);
  // What needs more than its bound may be tight.
  return known == ideas_.end() || may_be_best(known->second, least) || may_be_tight(bound.cost());
}

Seconds Ranking::longest_time(const RankedStrategy& untimed) const {
  const Worth least = worth(Seconds(0.0), untimed.needed);
  const auto time_of = [&](double cost) { return cost / untimed.price * (1.0 + kRounding); };
  double longest = 0.0;
  if (rules_.has_front) {
    const auto as_small = std::partition_point(
        front_.begin(), front_.end(),
        [&](const RankedStrategy& known) { return known.peak > untimed.peak; });
    longest = as_small == front_.end() ? kAny : as_small->time.value();
  }
  if (untimed.needed > rules_.limit)
    return Seconds(
        std::max(longest, time_of(std::min(least_cost(), tight_ ? tight_->cost().value() : kAny))));
  if (rules_.by_memory) return Seconds(least.cost > last_ ? longest : kAny);
  const auto known = ideas_.find(idea_of(untimed.strategy));
  double own = within(last_);
  if (known != ideas_.end()) {
    own = std::min(own, within(cost_of(known->second)));
    for (const RankedStrategy& other : known->second) {
      if (worth(other).spare > least.spare) continue;
      own = std::min(own, worth(other).cost);
      break;
    }
  }
  return Seconds(std::max(longest, time_of(own)));
}

std::vector<const Ranking::Candidates*> Ranking::best_ideas() const {
  std::vector<const Candidates*> order;
  for (const auto& [idea, known] : ideas_) order.push_back(&known);
  std::sort(order.begin(), order.end(), [&](const Candidates* one, const Candidates* other) {
    return precedes(one->front(), other->front());
  });
  if (order.size() > rules_.ideas) order.resize(rules_.ideas);
  return order;
}

std::vector<RankedStrategy> Ranking::best() const {
  std::vector<RankedStrategy> best;
  for (const Candidates* idea : best_ideas()) best.push_back(idea->back());
  std::sort(best.begin(), best.end(),
            [&](const auto& one, const auto& other) { return precedes(one, other); });
  return best;
}

std::optional<RankedStrategy> Ranking::tight() const {
  if (!tight_ || !may_be_tight(tight_->cost())) return std::nullopt;
  return tight_;
}

std::optional<RankedStrategy> Ranking::nearly_fitting() const {
  if (!nearly_ || empty() || !is_cheaper_than_fitting(nearly_->cost())) return std::nullopt;
  return nearly_;
}

}  // namespace llmsim::sim
