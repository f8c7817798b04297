#include "sim/schedule/communication.h"

#include <algorithm>
#include <initializer_list>

#include "sim/schedule/step.h"

namespace llmsim::sim {
namespace {

// The collectives of a pass over one kind of group.
using TalliesOf = CollectiveTallies PassPrice::*;

CollectiveTallies tallies_of(TalliesOf group, const Run& run, const LayerPrices& prices,
                             const std::vector<ModelChunk>& chunks) {
  CollectiveTallies tallies{};
  const auto add = [&](const PassPrice& pass, double times, bool) {
    for (std::size_t i = 0; i < tallies.size(); ++i) tallies[i].add((pass.*group)[i], times);
  };
  for (const ModelChunk& chunk : chunks)
    for_each_price(prices, mean_block(run, prices, chunk), chunk,
                   run.strategy.recompute.blocks_of(chunk.blocks), add);
  return tallies;
}

// Of a step.
struct Calls {
  double count;
  Bytes size;
  Seconds time;
  Seconds exposed;
};

void add_term(std::vector<CommunicationTerm>& list, CollectiveKind kind, GroupKind group, int ranks,
              const Calls& calls) {
  if (calls.count <= 0.0) return;
  list.push_back({.collective = name_of(kind),
                  .group = name_of(group),
                  .ranks = ranks,
                  .size = calls.size,
                  .count = calls.count,
                  .time = calls.time,
                  .exposed = calls.exposed});
}

void add_inner(std::vector<CommunicationTerm>& list, const Run& run, GroupKind group,
               const CollectiveTallies& tallies, Seconds exposed) {
  const double m = stage_layout(run.strategy).chunk_microbatches();
  Seconds all;
  for (const CollectiveTally& tally : tallies) all += m * tally.time;
  for (int i = 0; i < kNumCollectives; ++i) {
    const CollectiveTally& tally = tallies[static_cast<std::size_t>(i)];
    add_term(
        list, static_cast<CollectiveKind>(i), group, group_ranks(run.strategy, group),
        {m * tally.count, m * tally.message, m * tally.time, exposed * (m * tally.time / all)});
  }
}

struct GroupTallies {
  GroupKind group;
  TalliesOf tallies;
};

// What is exposed of all groups is shared out by their times.
void add_together(std::vector<CommunicationTerm>& list, const Run& run, const LayerPrices& prices,
                  const std::vector<ModelChunk>& chunks, Seconds exposed,
                  std::initializer_list<GroupTallies> groups) {
  std::vector<CollectiveTallies> tallies;
  Seconds all;
  for (const GroupTallies& group : groups) {
    tallies.push_back(tallies_of(group.tallies, run, prices, chunks));
    all += time_of(tallies.back());
  }
  if (all <= Seconds(0.0)) return;
  for (std::size_t i = 0; i < groups.size(); ++i)
    add_inner(list, run, groups.begin()[i].group, tallies[i], time_of(tallies[i]) / all * exposed);
}

// One exchange of some parameters, the ranks that carry it out, and what is exposed of it in a
// step.
struct GroupCollectives {
  DataParallelMessages all;
  GroupKind kind;
  int ranks;
  Seconds gather_exposed{}, reduce_exposed{};

  double scatter_share() const {
    return all.times.scatter > Seconds(0.0)
               ? all.times.scatter / (all.times.scatter + all.times.replicate)
               : 0.0;
  }
};

// Gathers of weights and reductions of gradients; what is exposed of the two reductions is shared
// out by their times.
void add_shards(std::vector<CommunicationTerm>& list, const DataParallelCollectives& exchange,
                const GroupCollectives& group) {
  if (group.ranks <= 1) return;
  const double forward = exchange.forward_gathers_per_step(),
               backward = exchange.backward_passes_per_step(),
               reductions = exchange.reductions_per_step();
  const auto gathers = [&](auto each, auto again) { return forward * each + backward * again; };
  const DataParallelMessages& all = group.all;
  add_term(list, CollectiveKind::AllGather, group.kind, group.ranks,
           {gathers(all.count, all.again.count),
            Bytes(gathers(all.parameters, all.again.parameters) * exchange.weight_wire_bytes()),
            gathers(all.times.gather, all.again.time), group.gather_exposed});
  add_term(
      list, exchange.gradient_collective(), group.kind, group.ranks,
      {reductions * all.count, Bytes(reductions * all.trained * exchange.gradient_wire_bytes()),
       reductions * all.times.scatter, group.scatter_share() * group.reduce_exposed});
}

// Sums of shards over their replicas.
void add_replicas(std::vector<CommunicationTerm>& list, const DataParallelCollectives& exchange,
                  const GroupCollectives& group, int shard_ranks) {
  const int ranks = exchange.replicate_links().place.ranks;
  const double reductions = exchange.reductions_per_step();
  if (ranks <= 1) return;
  add_term(list, CollectiveKind::AllReduce, GroupKind::Replicate, ranks,
           {reductions * group.all.count,
            Bytes(reductions * group.all.trained * exchange.gradient_wire_bytes() / shard_ranks),
            reductions * group.all.times.replicate,
            (1.0 - group.scatter_share()) * group.reduce_exposed});
}

Seconds share_of(Seconds exposed, Seconds chunk, Seconds other) {
  return other > Seconds(0.0) ? chunk / (chunk + other) * exposed : exposed;
}

void add_data(std::vector<CommunicationTerm>& list, const Run& run,
              const DataParallelCollectives& exchange, const std::vector<ModelChunk>& chunks,
              const Terms& terms) {
  const Strategy& strategy = run.strategy;
  GroupCollectives dense{exchange.messages(chunks), exchange.shard_group(),
                         exchange.shard_links().place.ranks};
  GroupCollectives experts{exchange.expert_messages(chunks), GroupKind::ExpertData,
                           exchange.expert_links().place.ranks};
  if (strategy.replicates_shards()) experts.ranks = strategy.expert_shard_ranks();
  const Seconds gathers = terms[Term::GatherExposed],
                reductions = terms[Term::ReduceExposed] - exchange.norm_time();
  const DataParallelTimes &one = dense.all.times, &other = experts.all.times;
  dense.gather_exposed = share_of(gathers, one.gather, other.gather);
  dense.reduce_exposed = share_of(reductions, one.reduce(), other.reduce());
  experts.gather_exposed = gathers - dense.gather_exposed,
  experts.reduce_exposed = reductions - dense.reduce_exposed;
  add_shards(list, exchange, dense);
  add_term(list, CollectiveKind::AllReduce, dense.kind, dense.ranks,
           {exchange.norm_message() > Bytes(0.0) ? 1.0 : 0.0, exchange.norm_message(),
            exchange.norm_time(), exchange.norm_time()});
  if (experts.all.count > 0.0) add_shards(list, exchange, experts);
  if (!strategy.replicates_shards()) return;
  add_replicas(list, exchange, dense, strategy.shard_ranks());
  if (experts.all.count > 0.0) add_replicas(list, exchange, experts, strategy.expert_shard_ranks());
}

// Sends of both directions, and gathers of what has been divided; stages wait for them in the
// bubble.
void add_pipeline(std::vector<CommunicationTerm>& list, const Run& run,
                  const std::vector<ModelChunk>& chunks, Seconds bubble) {
  std::vector<CommunicationTerm> kinds;
  Seconds all;
  for (const RepeatedCollective& messages : stage_messages(run, chunks)) {
    const char* const collective = name_of(messages.kind);
    if (kinds.empty() || kinds.back().collective != collective) {
      const int ranks = group_ranks(run.strategy, messages.group);
      kinds.push_back({.collective = collective, .group = name_of(messages.group), .ranks = ranks});
    }
    const Seconds time = repeated_time(run, messages);
    kinds.back().size += messages.calls * messages.message;
    kinds.back().count += messages.calls;
    kinds.back().time += time;
    all += time;
  }
  for (CommunicationTerm& kind : kinds) {
    if (all > Seconds(0.0)) kind.exposed = std::min(1.0, bubble / all) * kind.time;
    list.push_back(kind);
  }
}

// Takes their times out of `terms`.
void add_closing(std::vector<CommunicationTerm>& list, const Run& run,
                 const std::vector<ModelChunk>& chunks, Terms& terms) {
  for (const RepeatedCollective& closing : closing_collectives(run, chunks)) {
    const Seconds time = repeated_time(run, closing);
    terms[closing_term(closing)] -= time;
    add_term(list, closing.kind, closing.group, group_ranks(run.strategy, closing.group),
             {closing.calls, closing.message, time, time});
  }
}

}  // namespace

Seconds repeated_time(const Run& run, const RepeatedCollective& collective) {
  if (collective.message <= Bytes(0.0)) return Seconds(0.0);
  const GroupLinks links = group_links(run, collective.group);
  return collective.calls * collective_time(collective.kind, collective.message, links);
}

Seconds transfer_time(const Run& run, bool backward) {
  const StageMessage message = stage_message(run, backward);
  return repeated_time(run, {.kind = CollectiveKind::SendRecv,
                             .group = GroupKind::Pipeline,
                             .message = message.sent}) +
         repeated_time(run, {.kind = CollectiveKind::AllGather,
                             .group = GroupKind::Tensor,
                             .message = message.gathered});
}

StageTransfers overlapped_transfers(const Run& run) {
  if (run.strategy.pp == 1 || run.framework.blocking_transfers) return {};
  return {.forward = transfer_time(run, false), .backward = transfer_time(run, true)};
}

Term closing_term(const RepeatedCollective& closing) {
  return closing.group == GroupKind::Tensor ? Term::TensorExposed : Term::ReduceExposed;
}

std::vector<CommunicationTerm> data_communication(const Run& run,
                                                  const DataParallelCollectives& exchange,
                                                  const std::vector<ModelChunk>& chunks) {
  std::vector<CommunicationTerm> list;
  add_data(list, run, exchange, chunks, Terms{});
  for (CommunicationTerm& term : list) term.exposed = Seconds(0.0);
  return list;
}

std::vector<CommunicationTerm> communication_of(const Run& run, const LayerPrices& prices,
                                                const DataParallelCollectives& exchange,
                                                const std::vector<ModelChunk>& chunks,
                                                const Terms& terms) {
  std::vector<CommunicationTerm> list;
  Terms others = terms;
  add_closing(list, run, chunks, others);
  if (run.strategy.tp > 1) {
    add_inner(list, run, GroupKind::Tensor,
              tallies_of(&PassPrice::tensor_collectives, run, prices, chunks),
              others[Term::TensorExposed]);
  }
  if (run.strategy.cp > 1) {
    add_together(list, run, prices, chunks, terms[Term::ContextExposed],
                 {{GroupKind::Context, &PassPrice::context_collectives},
                  {GroupKind::ContextInner, &PassPrice::context_inner_collectives},
                  {GroupKind::ContextOuter, &PassPrice::context_outer_collectives}});
  }
  add_together(list, run, prices, chunks, terms[Term::ExpertExposed],
               {{GroupKind::Expert, &PassPrice::expert_collectives},
                {GroupKind::ExpertTensor, &PassPrice::expert_tensor_collectives}});
  add_data(list, run, exchange, chunks, others);
  add_pipeline(list, run, chunks, terms[Term::PipelineBubble] + terms[Term::TransferExposed]);
  return list;
}

namespace {

// What some ranks carry out in a step: each kind, group and message once, with all its calls.
void add_distinct(std::vector<RepeatedCollective>& list, const Strategy& strategy,
                  const RepeatedCollective& collective) {
  if (collective.message <= Bytes(0.0) || collective.calls <= 0.0 ||
      group_ranks(strategy, collective.group) <= 1)
    return;
  const auto found = std::find_if(list.begin(), list.end(), [&](const RepeatedCollective& other) {
    return other.kind == collective.kind && other.group == collective.group &&
           other.message == collective.message;
  });
  if (found == list.end()) {
    list.push_back(collective);
  } else {
    found->calls += collective.calls;
  }
}

// Weights and gradients of the parameters that a group of ranks shares, and sums of shards over
// their replicas.
void add_parameters(std::vector<RepeatedCollective>& list, const Strategy& strategy,
                    const DataParallelCollectives& exchange,
                    const std::vector<DataParallelUnits>& all, GroupKind group, int shard_ranks) {
  const double forward = exchange.forward_gathers_per_step(),
               backward = exchange.backward_passes_per_step();
  for (const DataParallelUnits& unit : all) {
    const Bytes gradients{unit.trained * exchange.gradient_wire_bytes()};
    const double reductions = unit.count * exchange.reductions_per_step();
    add_distinct(list, strategy,
                 {.kind = CollectiveKind::AllGather,
                  .group = group,
                  .message = Bytes(unit.parameters * exchange.weight_wire_bytes()),
                  .calls = unit.count * (forward + backward * unit.backward_gathers)});
    add_distinct(list, strategy,
                 {.kind = exchange.gradient_collective(),
                  .group = group,
                  .message = gradients,
                  .calls = reductions});
    if (!strategy.replicates_shards()) continue;
    add_distinct(
        list, strategy,
        {.group = GroupKind::Replicate, .message = gradients / shard_ranks, .calls = reductions});
  }
}

}  // namespace

std::vector<RepeatedCollective> step_collectives(const Run& run) {
  const LayerPrices prices = layer_prices(run);
  const StepSimulation simulation(run, prices);
  const std::vector<ModelChunk> chunks = simulation.chunks_of(simulation.busiest());
  const DataParallelCollectives& exchange = simulation.exchange();
  const Strategy& strategy = run.strategy;
  std::vector<RepeatedCollective> list;
  for (const RepeatedCollective& collective : stage_work(run, chunks).collectives)
    add_distinct(list, strategy, collective);
  add_parameters(list, strategy, exchange, exchange.message_units(chunks), exchange.shard_group(),
                 strategy.shard_ranks());
  add_distinct(list, strategy,
               {.group = exchange.shard_group(), .message = exchange.norm_message()});
  add_parameters(list, strategy, exchange, exchange.expert_message_units(chunks),
                 GroupKind::ExpertData, strategy.expert_shard_ranks());
  return list;
}

}  // namespace llmsim::sim
