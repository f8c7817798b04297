// Every strategy of a search that keeps the rules, with its exact memory and, where it fits, its
// exact step time: a whole space as a table, and what bounds are held to.
//
// Strategies are no sum of parts that can be priced apart: a part of the model takes longer beside
// gradients under way, and a pipeline is as long as its longest chain of passes.  But few of their
// dimensions meet in each step of the way, and what they share is worked out once:
//
//   prices of layers    tp, cp, ep, etp, sequence_parallel, micro_batch, switches; recompute
//   exchange of a part  layout, sharding; part
//   passes of a part    layout, sharding; recompute; part
//   bytes of a part     layout; recompute; part
//   states of a stage   layout, sharding; stage
//   passes in flight    layout; pipeline; stage
//   events              layout; pipeline; times of the parts, which most shardings share
//
// where a part is a number of layers with or without the ends of the model: 53 make the 88
// pipelines of two stages of an 80-layer model.  What is left for each strategy is the sum of a few
// numbers.
//
// Memory in closed form.  Where nothing comes and goes between passes but what they leave, a stage
// holds at its peak
//
//   lasting + gathered + max over t of (sum over parts i of n_i(t) left_i + rise_(i(t)))
//
// or what the update needs, with n_i(t) passes in flight before pass t, whose part is i(t), and
// what its forward or backward pass leaves and rises by.  n depends on the pipeline alone, and of
// the passes of a stage only those matter of which no other has as much of everything in flight:
// two or three.
//
// What has no closed form (units that are gathered one by one, gradients that come and go, offload,
// schedules that split backward passes) goes through the walk and the events one by one.  Tests
// hold all of it to memory_footprint() and StepSimulation.  Source: ours.
#pragma once

#include <functional>
#include <memory>

#include "sim/search/plan_problem.h"

namespace llmsim::sim {

struct CompleteStrategy {
  const SearchLayout& layout;
  const SearchPipeline& pipeline;
  SearchSharding sharding{};
  std::size_t recompute = 0;  // of SearchSpace::recomputes()
  Bytes peak{}, needed{};
  bool fits = false;
  Seconds time{};  // 0: not worked out
};

// Whose step times are worked out.
enum class CompleteTimes { OfFitting, OfAll };

class CompleteSearch {
 public:
  // `problem` must outlive the search.
  explicit CompleteSearch(const PlanProblem& problem,
                          CompleteTimes times = CompleteTimes::OfFitting);
  ~CompleteSearch();
  CompleteSearch(const CompleteSearch&) = delete;

  // Calls visit(strategy) for each of a group that keeps the rules.
  void search(const LayoutGroup& group, const std::function<void(const CompleteStrategy&)>& visit);

 private:
  class Layouts;
  std::unique_ptr<Layouts> layouts_;
};

}  // namespace llmsim::sim
