// The best of many strategies: one of each idea, in the order in which an expert would try them,
// and the Pareto front of time and memory.
//
// An idea is what a layout is called by: tp, pp, cp, expert ranks, the sharding, the schedule.  Its
// strategies differ in micro-batch, recomputation, virtual stages, group sizes; one of them stands
// for it.  With t the time of a step, k = t times what the layout costs in
// addition (layout_costs.h), c the memory that a device needs, and K the least k of an idea,
//
//   candidates   strategies with c <= limit, which leaves the memory that is asked to stay free
//   of an idea   of its candidates with k <= (1 + w) K the one with the smallest max(c, enough):
//                memory beyond what is surely enough is worth nothing; of equal ones the least k
//   order        ideas by K are those that count; what stands for them goes by k, then
//                max(c, enough), then the simpler first (comes_first)
//
// Where memory is what counts, k is c, t takes its place and w is 0.  The order does not depend on
// the order in which strategies come nor on the number of threads that bring them.
//
// A strategy of which only bounds are known, k, t and c at least, can be left out where it can be
// neither: it costs more than (1 + w) of the last idea that counts, or of its own idea's
// least, or another of its idea costs as little and needs less; and a known strategy takes less
// than t and has a peak of at most c, so that it is not on the front. Strategies that come later
// only make that truer.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// A strategy that fits.
struct RankedStrategy {
  Strategy strategy;
  Seconds time{};
  double price = 1.0;  // what it costs in addition to its time: k / t
  Bytes peak{};
  Bytes needed{};  // with what the allocator wastes and the driver context: at least the peak

  Seconds cost() const { return price * time; }
};

// The time of a strategy and what it costs, both at least.
struct LeastCost {
  Seconds time{};
  double price = 1.0;

  Seconds cost() const { return price * time; }
};

struct Idea {
  int tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  Sharding sharding = Sharding::None;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;  // interleaved counts as it

  auto operator<=>(const Idea&) const = default;
};
Idea idea_of(const Strategy& strategy);

// Of strategies as fast and as large as one another: the one with fewer ranks that divide the
// model, recomputing less, with fewer chunks, comes first.  Strict and total over those that a
// search tries.
bool comes_first(const Strategy& one, const Strategy& other);

struct RankingRules {
  std::size_t ideas = 10;  // at least one
  bool by_memory = false;
  bool has_front = true;
  double tie = 0.0;  // w
  Bytes limit{};     // what a candidate needs at most
  Bytes enough{};    // with what a device surely has room
  Bytes usable{};    // what a device has, or what is asked about
  Bytes nearly{};    // what a strategy needs at most that nearly fits
};

class Ranking {
 public:
  explicit Ranking(const RankingRules& rules);

  // A strategy that is known already changes nothing.
  void add(const RankedStrategy& strategy);
  void add(const Ranking& other);

  // Whether a strategy of any idea, or of this one, may be among the best or on the front.  `peak`
  // and `needed`: at least.
  bool may_matter(const LeastCost& least, Bytes peak) const;
  bool may_matter(const Idea& idea, const LeastCost& least, Bytes peak, Bytes needed) const;
  // What a strategy needs at most that fits.
  Bytes room() const { return rules_.usable; }
  // Whether times decide anything.
  bool asks_times() const { return !rules_.by_memory || rules_.has_front; }
  // Whether one that needs so much at least may fit, or nearly.
  bool may_fit(Bytes needed) const {
    return needed <= (rules_.by_memory ? rules_.usable : rules_.nearly);
  }
  // Whether one that needs more than a device has, but no more than this, may be the fastest that
  // nearly fits.
  bool may_nearly_fit(const LeastCost& least, Bytes needed) const;
  void add_unfitting(const RankedStrategy& strategy);
  // Of one whose time alone is not known: the longest with which it may.
  Seconds longest_time(const RankedStrategy& untimed) const;

  bool empty() const { return ideas_.empty() && !tight_; }
  std::vector<RankedStrategy> best() const;  // one of each idea, in order
  // The cheapest that fits and needs more than the limit, where it costs less than all candidates.
  std::optional<RankedStrategy> tight() const;
  // The cheapest that needs more than a device has, and little more, where it costs less than all
  // candidates and `tight`.
  std::optional<RankedStrategy> nearly_fitting() const;
  const std::vector<RankedStrategy>& front() const { return front_; }  // fastest first

 private:
  // What is to be small, and what decides among those where it is.
  struct Worth {
    double cost, spare;
  };
  // Costs ascend and spares descend: the last one stands for the idea.
  using Candidates = std::vector<RankedStrategy>;

  Worth worth(Seconds cost, Bytes needed) const;
  Worth worth(const RankedStrategy& one) const { return worth(one.cost(), one.needed); }
  double within(double cost) const { return (1.0 + rules_.tie) * cost; }
  double cost_of(const Candidates& idea) const { return worth(idea.front()).cost; }
  double least_cost() const;  // of all ideas
  bool precedes(const RankedStrategy& one, const RankedStrategy& other) const;
  std::vector<const Candidates*> best_ideas() const;
  bool may_be_best(const Candidates& idea, Worth least) const;
  bool may_be_on_front(Seconds time, Bytes peak) const;
  bool may_be_tight(Seconds cost) const;
  bool is_cheaper_than_fitting(Seconds cost) const;
  void add_candidate(const RankedStrategy& strategy);
  void add_to_front(const RankedStrategy& strategy);
  void forget_slow_ideas();

  RankingRules rules_;
  std::map<Idea, Candidates> ideas_;
  double last_;  // cost of the last idea that counts
  std::optional<RankedStrategy> tight_, nearly_;
  std::vector<RankedStrategy> front_;
};

}  // namespace llmsim::sim
