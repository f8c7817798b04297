#include "sim/schedule/step_collectives.h"

#include <algorithm>
#include <utility>

#include "sim/cost/layer_prices.h"
#include "sim/schedule/step_simulation.h"

namespace llmsim::sim {
namespace {

class DistinctCollectives {
 public:
  explicit DistinctCollectives(const Strategy& strategy) : strategy_(strategy) {}

  void add(const RepeatedCollective& collective) {
    if (collective.message <= Bytes(0.0) || collective.calls <= 0.0 || group_ranks(strategy_, collective.group) <= 1) return;
    const auto same = [&](const RepeatedCollective& other) {
      return other.kind == collective.kind && other.group == collective.group && other.message == collective.message;
    };
    const auto found = std::find_if(list_.begin(), list_.end(), same);
    if (found == list_.end()) {
      list_.push_back(collective);
    } else {
      found->calls += collective.calls;
    }
  }

  std::vector<RepeatedCollective> take() { return std::move(list_); }

 private:
  const Strategy& strategy_;
  std::vector<RepeatedCollective> list_;
};

// Weights and gradients of the parameters that a group of ranks shares, and sums of shards over their replicas.
void add_parameters(DistinctCollectives& list, const Run& run, const DataExchange& exchange,
                    const std::vector<ExchangedUnits>& all, GroupKind group, int shard_ranks) {
  const CollectiveKind reduction = exchange.shards_optimizer() ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
  for (const ExchangedUnits& unit : all) {
    const Bytes gradients{unit.trained * exchange.gradient_wire_bytes()};
    const double reductions = unit.count * exchange.reductions_per_step();
    list.add({.kind = CollectiveKind::AllGather,
              .group = group,
              .message = Bytes(unit.parameters * exchange.weight_wire_bytes()),
              .calls = unit.count * exchange.gathers_per_step()});
    list.add({.kind = reduction, .group = group, .message = gradients, .calls = reductions});
    if (!run.strategy.replicates_shards()) continue;
    list.add({.group = GroupKind::Replicate, .message = gradients / shard_ranks, .calls = reductions});
  }
}

}  // namespace

std::vector<RepeatedCollective> step_collectives(const Run& run) {
  const LayerPrices prices = layer_prices(run);
  const StepSimulation simulation(run, prices);
  const std::vector<ModelPart> parts = simulation.parts_of(simulation.busiest());
  const DataExchange& exchange = simulation.exchange();
  DistinctCollectives list(run.strategy);
  for (const RepeatedCollective& collective : stage_work(run, parts).collectives) list.add(collective);
  add_parameters(list, run, exchange, exchange.exchanged_units(parts), exchange.shard_group(), run.strategy.shard_ranks());
  list.add({.group = exchange.shard_group(), .message = exchange.norm_message()});
  add_parameters(list, run, exchange, exchange.exchanged_expert_units(parts), GroupKind::ExpertData,
                 run.strategy.expert_shard_ranks());
  return list.take();
}

}  // namespace llmsim::sim
