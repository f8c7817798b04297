#include "sim/schedule/step_operators.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sim/cost/layer_prices.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/pass_operators.h"
#include "sim/schedule/stage_work.h"
#include "sim/schedule/step.h"

namespace llmsim::sim {
namespace {

// What tells operators apart.
using Identity = std::tuple<OperatorKind, CollectiveKind, GroupKind, std::string, std::int64_t,
                            std::int64_t, std::int64_t, std::int64_t, double, bool, bool>;

Identity identity_of(const PricedOperator& op, bool backward) {
  return {op.kind, op.collective, op.group,           op.label, op.batch,     op.m,
          op.n,    op.k,          op.message.value(), backward, op.recomputed};
}

class Sum {
 public:
  explicit Sum(double microbatches) : microbatches_(microbatches) {}

  void add(const PricedOperator& op, bool backward) {
    const auto [place, is_new] = places_.try_emplace(identity_of(op, backward), list_.size());
    if (is_new) list_.push_back({.op = op, .backward = backward, .recomputed = op.recomputed});
    StepOperator& sum = list_[place->second];
    sum.calls += microbatches_;
    sum.kernels += microbatches_ * (op.kind == OperatorKind::Collective ? op.launches : op.kernels);
    sum.time += microbatches_ * op.time;
  }
  std::vector<StepOperator> list() && { return std::move(list_); }

 private:
  double microbatches_;
  std::map<Identity, std::size_t> places_;
  std::vector<StepOperator> list_;
};

Seconds closing_over_tensor(const Run& run, const std::vector<ModelChunk>& chunks) {
  Seconds time;
  for (const RepeatedCollective& closing : closing_collectives(run, chunks))
    if (closing_term(closing) == Term::TensorExposed) time += repeated_time(run, closing);
  return time;
}

}  // namespace

StepOperators step_operators(const Run& run) {
  const LayerPrices prices = layer_prices(run), operators = layers_with_operators(run);
  const StepSimulation simulation(run, prices);
  const std::vector<ModelChunk> chunks = simulation.chunks_of(simulation.busiest());
  const double microbatches = simulation.shape().layout().chunk_microbatches();
  Sum sum(microbatches);
  for (const ModelChunk& chunk : chunks)
    for (const PassKind pass : {PassKind::Forward, PassKind::Backward})
      for (const PricedOperator& op : pass_operators(run, operators, chunk, pass))
        sum.add(op, pass == PassKind::Backward);
  return {.operators = std::move(sum).list(),
          .terms = simulation.terms(),
          .closing_tensor = closing_over_tensor(run, chunks),
          .microbatches = microbatches};
}

}  // namespace llmsim::sim
