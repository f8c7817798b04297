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
    if (part.embedding) add_scaled(tallies, prices.embedding.backward.*group, 1.0);
    if (!part.head) continue;
    add_scaled(tallies, prices.head.forward.*group, 1.0);
    add_scaled(tallies, prices.head.recompute.*group, 1.0);
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
void add_data(std::vector<CommunicationTerm>& list, const Run& run, const DataExchange& exchange,
              const std::vector<ModelPart>& parts, const Terms& terms) {
  const ExchangedMessages all = exchange.messages(parts);
  const double weights = all.parameters * exchange.weight_wire_bytes();
  const double gradients = all.trained * exchange.gradient_wire_bytes();
  const auto add = [&](CollectiveKind kind, GroupKind group, int ranks, double calls, double bytes, Seconds time,
                       Seconds exposed) {
    if (calls <= 0.0 || ranks <= 1) return;
    list.push_back({.collective = name_of(kind),
                    .group = name_of(group),
                    .ranks = ranks,
                    .size = Bytes(calls * bytes),
                    .count = calls * all.count,
                    .time = calls * time,
                    .exposed = exposed});
  };
  const int shard = exchange.shard_links().place.ranks, replicas = exchange.replicate_links().place.ranks;
  const double reductions = exchange.reductions_per_step();
  const Seconds scatter = all.times.scatter, replicate = all.times.replicate;
  const double scatter_share = scatter > Seconds(0.0) ? scatter / (scatter + replicate) : 0.0;
  const Seconds exposed = terms[Term::ReduceExposed] - exchange.norm_time();
  const CollectiveKind reduction = exchange.shards_optimizer() ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
  add(CollectiveKind::AllGather, exchange.shard_group(), shard, exchange.gathers_per_step(), weights, all.times.gather,
      terms[Term::GatherExposed]);
  add(reduction, exchange.shard_group(), shard, reductions, gradients, scatter, scatter_share * exposed);
  if (exchange.norm_message() > Bytes(0.0)) {
    list.push_back({.collective = name_of(CollectiveKind::AllReduce),
                    .group = name_of(exchange.shard_group()),
                    .ranks = shard,
                    .size = exchange.norm_message(),
                    .count = 1.0,
                    .time = exchange.norm_time(),
                    .exposed = exchange.norm_time()});
  }
  if (run.strategy.sharding != Sharding::Hsdp) return;
  add(CollectiveKind::AllReduce, GroupKind::Replicate, replicas, reductions, gradients / run.strategy.shard_ranks(), replicate,
      (1.0 - scatter_share) * exposed);
}

void add_pipeline(std::vector<CommunicationTerm>& list, const Run& run, const StageTransfer& transfer,
                  const std::vector<ModelPart>& parts, Seconds bubble) {
  const RepeatedCollective sends = stage_sends(run, parts);
  list.push_back({.collective = name_of(sends.kind),
                  .group = name_of(sends.group),
                  .ranks = run.strategy.pipeline_parallel,
                  .size = sends.calls * sends.message,
                  .count = sends.calls,
                  .time = sends.calls * transfer.time,
                  .exposed = std::min(sends.calls * transfer.time, bubble)});
}

// Takes their times out of `terms`.
void add_closing(std::vector<CommunicationTerm>& list, const Run& run, const std::vector<ModelPart>& parts, Terms& terms) {
  for (const RepeatedCollective& closing : closing_collectives(run, parts)) {
    const Seconds time = closing_time(run, closing);
    terms[closing_term(closing)] -= time;
    list.push_back({.collective = name_of(closing.kind),
                    .group = name_of(closing.group),
                    .ranks = group_ranks(run.strategy, closing.group),
                    .size = closing.message,
                    .count = closing.calls,
                    .time = time,
                    .exposed = time});
  }
}

}  // namespace

Seconds closing_time(const Run& run, const RepeatedCollective& closing) {
  const GroupLinks links = group_links(run.strategy, closing.group, run.cluster, run.stack.collective_efficiency);
  return closing.calls * collective_time(closing.kind, closing.message, links);
}

Term closing_term(const RepeatedCollective& closing) {
  return closing.group == GroupKind::Tensor ? Term::TensorExposed : Term::ReduceExposed;
}

std::vector<CommunicationTerm> data_communication(const Run& run, const DataExchange& exchange,
                                                  const std::vector<ModelPart>& parts) {
  std::vector<CommunicationTerm> list;
  add_data(list, run, exchange, parts, Terms{});
  for (CommunicationTerm& term : list) term.exposed = Seconds(0.0);
  return list;
}

std::vector<CommunicationTerm> communication_of(const Run& run, const LayerPrices& prices, const DataExchange& exchange,
                                                const StageTransfer& transfer, const std::vector<ModelPart>& parts,
                                                const Terms& terms) {
  std::vector<CommunicationTerm> list;
  Terms others = terms;
  add_closing(list, run, parts, others);
  if (run.strategy.tensor_parallel > 1) {
    add_inner(list, run, GroupKind::Tensor, tallies_of(&PassPrice::tensor_collectives, run, prices, parts),
              others[Term::TensorExposed]);
  }
  if (run.strategy.context_parallel > 1) {
    add_inner(list, run, GroupKind::Context, tallies_of(&PassPrice::context_collectives, run, prices, parts),
              terms[Term::ContextExposed]);
  }
  add_data(list, run, exchange, parts, others);
  if (run.strategy.pipeline_parallel > 1) add_pipeline(list, run, transfer, parts, terms[Term::PipelineBubble]);
  return list;
}

}  // namespace llmsim::sim
