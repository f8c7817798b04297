#include "sim/schedule/communication.h"

#include <algorithm>

#include "sim/schedule/passes.h"

namespace llmsim::sim {
namespace {

// The collectives of a pass over one kind of group.
using TalliesOf = CollectiveTallies PassPrice::*;

void add_scaled(CollectiveTallies& tallies, const CollectiveTallies& pass, double times) {
  for (std::size_t i = 0; i < tallies.size(); ++i) tallies[i].add(pass[i], times);
}

CollectiveTallies tallies_of(TalliesOf group, const Run& run, const LayerPrices& prices, const std::vector<ModelPart>& parts) {
  CollectiveTallies tallies{};
  for (const ModelPart& part : parts) {
    add_scaled(tallies, prices.block.forward.*group, part.blocks);
    add_scaled(tallies, prices.block.backward.*group, part.blocks);
    add_scaled(tallies, prices.block.recompute.*group, recomputed_blocks(run.strategy, part));
    if (part.embedding) add_scaled(tallies, prices.embedding.forward.*group, 1.0);
    if (!part.head) continue;
    add_scaled(tallies, prices.head.forward.*group, 1.0);
    add_scaled(tallies, prices.head.backward.*group, 1.0);
  }
  return tallies;
}

void add_inner(std::vector<CommunicationTerm>& list, const Run& run, GroupKind group, const CollectiveTallies& tallies,
               Seconds exposed) {
  const double m = run.strategy.num_microbatches();
  Seconds all;
  for (const CollectiveTally& tally : tallies) all += m * tally.time;
  for (int i = 0; i < kNumCollectives; ++i) {
    const CollectiveTally& tally = tallies[static_cast<std::size_t>(i)];
    if (tally.count == 0.0) continue;
    list.push_back({.collective = name_of(static_cast<CollectiveKind>(i)),
                    .group = name_of(group),
                    .ranks = group_ranks(run.strategy, group),
                    .size = m * tally.message,
                    .count = m * tally.count,
                    .time = m * tally.time,
                    .exposed = exposed * (m * tally.time / all)});
  }
}

// Gathers of weights, reductions of gradients and, under Hsdp, the sum over replicas; what is exposed of the two reductions is
// shared out by their times.
void add_data(std::vector<CommunicationTerm>& list, const Run& run, const DataExchange& exchange, const RankParameters& rank,
              const std::vector<ModelPart>& parts, const Terms& terms) {
  double blocks = 0.0, ends = 0.0, messages = 0.0;
  ExchangeTimes all;
  for (const ModelPart& part : parts) {
    const int units = exchange.units(part.blocks);
    const ExchangeTimes unit = exchange.unit_times(part.blocks);
    blocks += part.blocks, ends += exchange.end_parameters(part), messages += units;
    all.gather += units * unit.gather, all.scatter += units * unit.scatter, all.replicate += units * unit.replicate;
  }
  const ExchangeTimes end = exchange.times(ends, ends);
  if (ends > 0.0) messages += 1.0;
  const double weights = (blocks * rank.block + ends) * exchange.weight_wire_bytes();
  const double gradients = (blocks * exchange.trained_block() + ends) * exchange.gradient_wire_bytes();
  const auto add = [&](CollectiveKind kind, GroupKind group, int ranks, double calls, double bytes, Seconds time,
                       Seconds exposed) {
    if (calls <= 0.0 || ranks <= 1) return;
    list.push_back({.collective = name_of(kind),
                    .group = name_of(group),
                    .ranks = ranks,
                    .size = Bytes(calls * bytes),
                    .count = calls * messages,
                    .time = calls * time,
                    .exposed = exposed});
  };
  const int shard = exchange.shard_links().place.ranks, replicas = exchange.replicate_links().place.ranks;
  const double reductions = exchange.reductions_per_step();
  const Seconds scatter = all.scatter + end.scatter, replicate = all.replicate + end.replicate;
  const double scatter_share = scatter > Seconds(0.0) ? scatter / (scatter + replicate) : 0.0;
  const Seconds exposed = terms[Term::ReduceExposed];
  const CollectiveKind reduction = exchange.shards_optimizer() ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
  add(CollectiveKind::AllGather, exchange.shard_group(), shard, exchange.gathers_per_step(), weights, all.gather + end.gather,
      terms[Term::GatherExposed]);
  add(reduction, exchange.shard_group(), shard, reductions, gradients, scatter, scatter_share * exposed);
  if (run.strategy.sharding != Sharding::Hsdp) return;
  add(CollectiveKind::AllReduce, GroupKind::Replicate, replicas, reductions, gradients / run.strategy.shard_ranks(), replicate,
      (1.0 - scatter_share) * exposed);
}

void add_pipeline(std::vector<CommunicationTerm>& list, const Strategy& strategy, const StageTransfer& transfer, Seconds bubble) {
  const double count = 2.0 * strategy.num_microbatches() * strategy.virtual_stages;
  list.push_back({.collective = name_of(CollectiveKind::SendRecv),
                  .group = name_of(GroupKind::Pipeline),
                  .ranks = strategy.pipeline_parallel,
                  .size = count * transfer.size,
                  .count = count,
                  .time = count * transfer.time,
                  .exposed = std::min(count * transfer.time, bubble)});
}

}  // namespace

std::vector<CommunicationTerm> communication_of(const Run& run, const LayerPrices& prices, const DataExchange& exchange,
                                                const StageTransfer& transfer, const std::vector<ModelPart>& parts,
                                                const Terms& terms) {
  std::vector<CommunicationTerm> list;
  if (run.strategy.tensor_parallel > 1) {
    add_inner(list, run, GroupKind::Tensor, tallies_of(&PassPrice::tensor_collectives, run, prices, parts),
              terms[Term::TensorExposed]);
  }
  if (run.strategy.context_parallel > 1) {
    add_inner(list, run, GroupKind::Context, tallies_of(&PassPrice::context_collectives, run, prices, parts),
              terms[Term::ContextExposed]);
  }
  add_data(list, run, exchange, rank_parameters(run.model, run.strategy), parts, terms);
  if (run.strategy.pipeline_parallel > 1) add_pipeline(list, run.strategy, transfer, terms[Term::PipelineBubble]);
  return list;
}

}  // namespace llmsim::sim
