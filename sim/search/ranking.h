// The best of many strategies: one of each idea, in the order in which an expert would try them,
// and the Pareto front of time and memory.
//
// An idea is what a layout is called by: tp, pp, cp, expert ranks, the sharding, the schedule.  Its
// strategies differ in micro-batch, recomputation, virtual stages, group sizes; one of them stands
// for it.  With t the time of a step, c the memory that a device needs, T the fastest of an idea,
// and w the error of predicted ratios,
//
//   candidates   strategies with c <= limit, which leaves the memory that is asked to stay free
//   of an idea   of its candidates with t <= (1 + w) T the one with the smallest max(c, enough):
//                memory beyond what is surely enough is worth nothing; of equal ones the fastest
//   order        ideas by T; of the strategies that stand for them, those that take at most (1 + w)
//                of the fastest of these are ties: they go by max(c, enough), then the simpler
//                first (comes_first); then the others, by t
//
// Where memory is what counts, t and c change places and w is 0.  The order does not depend on the
// order in which strategies come nor on the number of threads that bring them.
//
// A strategy of which only bounds are known, t and c at least, can be left out where it can be
// neither: it takes longer than (1 + w) of the last idea that counts, or of its own idea's
// fastest, or another of its idea is as fast and needs less; and a known strategy takes less than
// t and has a peak of at most c, so that it is not on the front. Strategies that come later only
// make that truer.
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
  Bytes peak{};
  Bytes needed{};  // with what the allocator wastes and the driver context: at least the peak
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

// One strategy of each idea, in order; the first `ties` of them are ties.
struct RankedIdeas {
  std::vector<RankedStrategy> strategies;
  std::size_t ties = 0;
};

class Ranking {
 public:
  explicit Ranking(const RankingRules& rules);

  // A strategy that is known already changes nothing.
  void add(const RankedStrategy& strategy);
  void add(const Ranking& other);

  // Whether a strategy of any idea, or of this one, may be among the best or on the front.  `time`,
  // `peak` and `needed`: at least.
  bool may_matter(Seconds time, Bytes peak) const;
  bool may_matter(const Idea& idea, Seconds time, Bytes peak, Bytes needed) const;
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
  bool may_nearly_fit(Seconds time, Bytes needed) const;
  void add_unfitting(const RankedStrategy& strategy);
  // Of one that needs this: the longest time with which it may.
  Seconds longest_time(const RankedStrategy& untimed) const;

  bool empty() const { return ideas_.empty() && !tight_; }
  RankedIdeas best() const;
  // The fastest that fits and needs more than the limit, where it is faster than all candidates.
  std::optional<RankedStrategy> tight() const;
  // The fastest that needs more than a device has, and little more, where it is faster than all
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

  Worth worth(Seconds time, Bytes needed) const;
  Worth worth(const RankedStrategy& one) const { return worth(one.time, one.needed); }
  double within(double cost) const { return (1.0 + rules_.tie) * cost; }
  double cost_of(const Candidates& idea) const { return worth(idea.front()).cost; }
  double least_cost() const;  // of all ideas
  bool precedes(const RankedStrategy& one, const RankedStrategy& other) const;
  std::vector<const Candidates*> best_ideas() const;
  bool may_be_best(const Candidates& idea, Worth least) const;
  bool may_be_on_front(Seconds time, Bytes peak) const;
  bool may_be_tight(Seconds time) const;
  bool is_faster_than_fitting(Seconds time) const;
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
