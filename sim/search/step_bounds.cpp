#include "sim/search/step_bounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/schedule/communication.h"
#include "sim/schedule/data_parallel_collectives.h"
#include "sim/schedule/launch.h"
#include "sim/schedule/step.h"

namespace llmsim::sim {

LayerSums& LayerSums::operator+=(const LayerSums& other) {
  for (std::size_t slot = 0; slot < blocks.size(); ++slot)
    blocks[slot] += other.blocks[slot], recomputed[slot] += other.recomputed[slot];
  embedding += other.embedding, head += other.head;
  return *this;
}

double LayerSums::times(const LayerSums& each) const {
  double own = embedding * each.embedding, again = head * each.head;
  for (std::size_t slot = 0; slot < blocks.size(); ++slot) {
    own += blocks[slot] * each.blocks[slot];
    again += recomputed[slot] * each.recomputed[slot];
  }
  return own + again;
}

namespace {

LayerSums sums_of(const ModelChunk& chunk, const Recompute& recompute) {
  LayerSums sums{.embedding = chunk.embedding ? 1.0 : 0.0, .head = chunk.head ? 1.0 : 0.0};
  const double share = chunk.blocks > 0 ? recompute.blocks_of(chunk.blocks) / chunk.blocks : 0.0;
  for_each_kind(chunk.of_kind, [&](std::size_t slot, int blocks) {
    sums.blocks[slot] = blocks, sums.recomputed[slot] = share * blocks;
  });
  return sums;
}

}  // namespace

StageCounts::StageCounts(std::shared_ptr<const EqualStages> stages,
                         const std::vector<Recompute>& recomputes)
    : stages_(std::move(stages)) {
  for (const Recompute& recompute : recomputes) {
    for (const EqualStages::Kind& kind : stages_->kinds()) {
      LayerSums own, before;
      for (int chunk = 0; chunk < layout().chunks(); ++chunk)
        own += chunks_.emplace_back(sums_of(stages_->chunk(kind.first, chunk), recompute));
      for (int stage = 0; stage < kind.last; ++stage)
        before += sums_of(stages_->chunk(stage, 0), recompute);
      own_.push_back(own), before_.push_back(before);
    }
  }
}

// Layers.

namespace {

// The smaller of a block in the recipe's format and in 16 bits, where a recipe leaves some in
// these.
using BlockTable = std::vector<BlockPrice> BlockPrices::*;

template <class Value>
double least(const LayerPrices& prices, BlockTable blocks, std::size_t slot, const Value& value) {
  const double own = value((prices.*blocks)[slot]);
  return prices.high_precision ? std::min(own, value((*prices.high_precision.*blocks)[slot])) : own;
}

// A value of every kind of block.
template <class Value>
KindTable<double> least_of_all(const LayerPrices& prices, const Value& value,
                               BlockTable blocks = &BlockPrices::blocks) {
  KindTable<double> values{};
  for (std::size_t slot = 0; slot < prices.blocks.size(); ++slot)
    values[slot] = least(prices, blocks, slot, value);
  return values;
}

void set_times(LayerBounds& bounds, const LayerPrices& prices) {
  const BlockPrice &embedding = prices.embedding, &head = prices.head;
  bounds.forward.blocks =
      least_of_all(prices, [](const BlockPrice& b) { return b.forward.total().value(); });
  bounds.forward.embedding = embedding.forward.total().value();
  bounds.forward.head = head.forward.total().value();
  bounds.backward.blocks =
      least_of_all(prices, [](const BlockPrice& b) { return b.backward.total().value(); });
  bounds.backward.recomputed =
      least_of_all(prices, [](const BlockPrice& b) { return b.recompute.total().value(); });
  bounds.backward.embedding = embedding.backward.total().value();
  bounds.backward.head = (head.recompute.total() + head.backward.total()).value();
  bounds.compute.blocks = least_of_all(prices, [](const BlockPrice& b) {
    return (b.forward.compute() + b.backward.compute()).value();
  });
  bounds.compute.recomputed =
      least_of_all(prices, [](const BlockPrice& b) { return b.recompute.compute().value(); });
  bounds.compute.head = bounds.forward.head + bounds.backward.head;
}

// All that joined passes can hide of them, whichever is in 16 bits.
void set_all_to_alls(LayerBounds& bounds, const LayerPrices& prices) {
  const auto most = [&](const auto& value) {
    KindTable<double> values{};
    for (std::size_t slot = 0; slot < prices.blocks.size(); ++slot) {
      values[slot] = value(prices.blocks[slot]);
      if (prices.high_precision)
        values[slot] = std::max(values[slot], value(prices.high_precision->blocks[slot]));
    }
    return values;
  };
  bounds.all_to_all.blocks =
      most([](const BlockPrice& b) { return (b.forward.expert + b.backward.expert).value(); });
  bounds.all_to_all.recomputed =
      most([](const BlockPrice& b) { return b.recompute.expert.value(); });
}

// Of one pass over one layer, its host's time.
class HostBounds {
 public:
  explicit HostBounds(const Run& run)
      : run_(run), units_(units_per_block(run.model, run.framework)) {}

  double block(const PassPrice& pass, bool moe) const {
    return time(pass, {.units = units_, .moe_blocks = moe ? 1.0 : 0.0});
  }
  double recomputed(const PassPrice& pass, bool moe) const {
    const double units = fetches_recomputed(run_.framework.sharded) ? units_ : 0.0;
    return time(pass, {.units = units, .recomputed_blocks = 1.0, .moe_blocks = moe ? 1.0 : 0.0});
  }
  double end(const PassPrice& pass) const { return time(pass, {}); }

 private:
  double time(const PassPrice& pass, HostCalls calls) const {
    calls.add(run_.strategy.cuda_graph ? pass.ragged_launches : pass.launches, 1.0);
    return (run_.cluster.device.achieved.host_call_factor * calls.time(run_.framework)).value();
  }

  const Run& run_;
  double units_;
};

void set_host_times(LayerBounds& bounds, const Run& run, const LayerPrices& prices) {
  if (run.strategy.cuda_graph && run.strategy.moe_captured) return;
  const HostBounds host(run);
  const LayerKinds kinds = layer_kinds(run.model);
  const auto of = [&](const auto& time) {
    KindTable<double> times{};
    for (std::size_t slot = 0; slot < kinds.size(); ++slot)
      times[slot] = least(prices, &BlockPrices::blocks, slot,
                          [&](const BlockPrice& b) { return time(b, kinds[slot].has_experts()); });
    return times;
  };
  const BlockPrice &embedding = prices.embedding, &head = prices.head;
  bounds.forward_host = {
      .blocks = of([&](const BlockPrice& b, bool moe) { return host.block(b.forward, moe); }),
      .embedding = host.end(embedding.forward),
      .head = host.end(head.forward)};
  bounds.backward_host = {
      .blocks = of([&](const BlockPrice& b, bool moe) { return host.block(b.backward, moe); }),
      .embedding = host.end(embedding.backward),
      .head = host.end(head.recompute) + host.end(head.backward),
      .recomputed =
          of([&](const BlockPrice& b, bool moe) { return host.recomputed(b.recompute, moe); })};
  bounds.waits_for_host = true;
}

double net_of(const BlockPrice& block) { return block.memory.forward.net.total().value(); }
double rise_of(const BlockPrice& block) { return block.memory.backward.rise.total().value(); }

// What blocks leave: those without recomputation, and what the others leave beyond that.
void set_bytes(LayerBounds& bounds, const Run& run, const LayerPrices& prices) {
  const bool full = run.strategy.recompute.kind == RecomputeKind::Full;
  const double stored_less =
      full ? (1.0 - stored_inputs_per_block(run.strategy, run.framework)) * bounds.residual : 0.0;
  bounds.left.blocks = least_of_all(prices, net_of, &BlockPrices::whole_blocks);
  bounds.left.recomputed = least_of_all(prices, net_of);
  for (std::size_t slot = 0; slot < bounds.left.blocks.size(); ++slot)
    bounds.left.recomputed[slot] -= stored_less + bounds.left.blocks[slot];
  bounds.left.embedding = prices.embedding.memory.forward.net.total().value();
  bounds.left.head = prices.head.memory.forward.net.total().value();
  bounds.rise.blocks = least_of_all(prices, rise_of);
  const KindTable<double> whole = least_of_all(prices, rise_of, &BlockPrices::whole_blocks);
  for (std::size_t slot = 0; slot < whole.size(); ++slot)
    bounds.rise.blocks[slot] = std::min(bounds.rise.blocks[slot], whole[slot]);
  bounds.rise.head = prices.head.memory.backward.rise.total().value();
}

// What does not depend on layers.
LayerBounds empty_bounds(const Run& run) {
  return {.residual = stage_output(run.model, run.strategy).value(),
          .sent_outputs_stay = run.framework.saved.stage_outputs,
          .activations_leave = run.strategy.offload.activations};
}

}  // namespace

LayerBounds layer_bounds(const Run& run, const LayerPrices& prices) {
  LayerBounds bounds = empty_bounds(run);
  set_times(bounds, prices);
  set_all_to_alls(bounds, prices);
  set_host_times(bounds, run, prices);
  set_bytes(bounds, run, prices);
  return bounds;
}

LayerBounds output_bounds(const Run& run) {
  LayerBounds bounds = empty_bounds(run);
  const double stored = stored_inputs_per_block(run.strategy, run.framework);
  bounds.left.blocks.fill(std::min(1.0, stored) * bounds.residual);
  bounds.left.head = bounds.rise.head = -bounds.residual;
  bounds.rise.blocks.fill(-bounds.residual);
  return bounds;
}

LayerBounds without_recomputation(LayerBounds bounds) {
  for (LayerSums* sums :
       {&bounds.backward, &bounds.backward_host, &bounds.compute, &bounds.all_to_all})
    sums->recomputed = {};
  return bounds;
}

// Steps.

StepShape step_shape(const Run& run) {
  const Framework& framework = run.framework;
  StepShape shape{.microbatches = static_cast<double>(run.strategy.num_microbatches()),
                  .straggler = straggler_share(run.cluster),
                  .per_step = framework.host.per_step.value()};
  const StageTransfers transfers = overlapped_transfers(run);
  shape.forward_transfer = transfers.forward.value();
  shape.backward_transfer = transfers.backward.value();
  const bool every = reduces_every_microbatch(framework, run.strategy);
  // Weights that may all stay may leave gradients one message.
  const bool regathers = gathers_every_pass(framework, run.strategy) &&
                         framework.sharded.regathers_in_backward &&
                         framework.sharded.live_parameters <= 0.0;
  shape.cools_down = !every || run.strategy.gradient_overlap || regathers;
  return shape;
}

namespace {

CollectiveRules collective_rules(const Run& run, const DataParallelCollectives& exchange) {
  return {.gathers_every_pass = exchange.gathers_every_pass(),
          .gathers_once = exchange.gathers_once(),
          .reduces_every_pass = exchange.reduces_every_microbatch(),
          .gathers_overlap = run.strategy.gather_overlap,
          .reductions_overlap = run.strategy.gradient_overlap};
}

void add_copies(StageCollectives& sum, const Run& run, const DataParallelCollectives& exchange,
                const ModelChunk& chunk) {
  const double bytes_per_second = run.cluster.device.achieved_bandwidth().value();
  const double each = exchange.trained_parameters(chunk) / bytes_per_second;
  const double gathered = each * gather_copy_bytes(run, exchange);
  sum.gather_copies += gathered;
  sum.gather_copies_again += exchange.least_backward_gathers(chunk) * gathered;
  sum.reduce_copies += each * reduction_copy_bytes(run, exchange);
  sum.accumulation += each * accumulation_bytes(run, exchange);
}

StageCollectives stage_collectives(const Run& run, const DataParallelCollectives& exchange,
                                   const EqualStages& stages, int stage, bool overlaps) {
  StageCollectives sum;
  for (int chunk = 0; chunk < stages.layout().chunks(); ++chunk) {
    const ModelChunk& own_chunk = stages.chunk(stage, chunk);
    add_copies(sum, run, exchange, own_chunk);
    if (own_chunk.blocks == 0) continue;
    const DataParallelTimes unit = exchange.unit_times(own_chunk);
    const double count = exchange.units(own_chunk);
    sum.gather += count * unit.gather.value();
    sum.first_gather += unit.gather.value();
    const double again = exchange.least_backward_gathers(own_chunk);
    sum.gather_again += again * count * unit.gather.value();
    sum.first_gather_again += again * unit.gather.value();
    // One message after the backward pass may take less than its units would.
    if (!overlaps && again == 0.0) continue;
    sum.reduce += count * unit.scatter.value();
    sum.last_reduce += unit.reduce().value();
  }
  return sum;
}

}  // namespace

ShardingCosts sharding_costs(const Run& run, const RankParameters& rank,
                             const StageCounts& counts) {
  const DataParallelCollectives exchange(run, rank);
  ShardingCosts costs{.rules = collective_rules(run, exchange), .kinds = {}};
  for (const EqualStages::Kind& kind : counts.kinds())
    costs.kinds.push_back(stage_collectives(run, exchange, counts.stages(), kind.first,
                                            costs.rules.reductions_overlap));
  costs.update = longest_update(run, rank, counts.stages()).value();
  return costs;
}

namespace {

double fourth_root_sum(double device, double host) {
  const double d = device * device, h = host * host;
  return std::sqrt(std::sqrt(d * d + h * h));
}

// A pass of `compute` with its messages and their copies.  A device that waits for its host waits
// less beside them, so that they alone are no bound then.
double pass_bound(double compute, const StageCollectives& messages, const CollectiveRules& rules,
                  bool waits_for_host) {
  const double serial = compute + messages.gather_copies + messages.reduce_copies +
                        (rules.gathers_overlap ? messages.first_gather : messages.gather) +
                        (rules.reductions_overlap ? messages.last_reduce : messages.reduce);
  return waits_for_host ? serial : std::max(serial, messages.gather + messages.reduce);
}

// Those of one pass.
StageCollectives forward_messages(const StageCollectives& all, bool gathers) {
  if (!gathers) return {};
  return {
      .gather = all.gather, .first_gather = all.first_gather, .gather_copies = all.gather_copies};
}

StageCollectives backward_messages(const StageCollectives& all, bool reduces) {
  return {.gather = all.gather_again,
          .reduce = reduces ? all.reduce : 0.0,
          .first_gather = all.first_gather_again,
          .last_reduce = reduces ? all.last_reduce : 0.0,
          .gather_copies = all.gather_copies_again,
          .reduce_copies = reduces ? all.reduce_copies : 0.0};
}

// Of all micro-batches through one kind of stage, and what its first and last pass take beyond the
// others.
struct StageBound {
  double work = 0.0, extra = 0.0;
};

StageBound stage_bound(const StepShape& shape, double forward, double backward,
                       const StageCollectives& messages, const CollectiveRules& rules, bool waits) {
  const auto ahead = [&](bool gathers) {
    return pass_bound(forward, forward_messages(messages, gathers), rules, waits);
  };
  const auto back = [&](bool reduces) {
    return pass_bound(backward, backward_messages(messages, reduces), rules, waits);
  };
  const double each = ahead(rules.gathers_every_pass) + back(rules.reduces_every_pass);
  const double first = rules.gathers_once ? ahead(true) - ahead(false) : 0.0;
  return {.work = shape.microbatches * each,
          .extra = first + back(true) - back(rules.reduces_every_pass)};
}

// One queue for the whole step.
double run_ahead_bound(const StageCounts& counts, std::size_t recompute,
                       const LayerBounds& layers) {
  const LayerSums& own = counts.own(0, recompute);
  const double device = own.times(layers.forward) + own.times(layers.backward);
  if (!layers.waits_for_host) return device;
  return fourth_root_sum(device, own.times(layers.forward_host) + own.times(layers.backward_host));
}

double pass_time(const LayerSums& own, const LayerSums& device, const LayerSums& host, bool waits) {
  const double time = own.times(device);
  return waits ? fourth_root_sum(time, own.times(host)) : time;
}

double pipeline_bound(const StepShape& shape, const StageCounts& counts, std::size_t recompute,
                      const LayerBounds& layers, const ShardingCosts* costs) {
  const bool waits = layers.waits_for_host, alone = counts.layout().stages == 1;
  double most = 0.0;
  for (std::size_t kind = 0; kind < counts.kinds().size(); ++kind) {
    const LayerSums& own = counts.own(kind, recompute);
    // On a single stage the host's waits are those of both passes together.
    const double forward = pass_time(own, layers.forward, layers.forward_host, waits && !alone);
    const double backward = pass_time(own, layers.backward, layers.backward_host, waits && !alone);
    StageBound bound{.work = shape.microbatches * (forward + backward)};
    if (costs) {
      // Where the host is slower than the device, it is while gradients are added up too.
      const StageCollectives& messages = costs->kinds[kind];
      const double added = waits && !alone ? 0.0 : messages.accumulation;
      bound = stage_bound(shape, forward, backward + added, messages, costs->rules, waits);
    }
    if (alone) {
      bound.work =
          std::max(bound.work, shape.microbatches * run_ahead_bound(counts, recompute, layers));
      return bound.work + std::max(0.0, bound.extra);
    }
    const LayerSums& before = counts.before(kind, recompute);
    const double stages = counts.kinds()[kind].last;
    const double ahead = pass_time(before, layers.forward, layers.forward_host, waits) +
                         stages * shape.forward_transfer,
                 back = pass_time(before, layers.backward, layers.backward_host, waits) +
                        stages * shape.backward_transfer;
    most = std::max(
        most, ahead + bound.work + std::max({0.0, bound.extra, shape.cools_down ? back : 0.0}));
  }
  return most;
}

// Of schedules that split backward passes or join passes.
double work_bound(const StepShape& shape, const StageCounts& counts, std::size_t recompute,
                  const LayerBounds& layers) {
  const bool joins = counts.layout().schedule == PipelineSchedule::DualPipe;
  double most = 0.0;
  for (std::size_t kind = 0; kind < counts.kinds().size(); ++kind) {
    const LayerSums& own = counts.own(kind, recompute);
    const double both = own.times(layers.forward) + own.times(layers.backward);
    most = std::max(most, both - (joins ? own.times(layers.all_to_all) : 0.0));
  }
  return shape.microbatches * most;
}

}  // namespace

namespace {

// Of a micro-batch through a stage: copies on the device that are made for each.
double copies_of_each(const StageCollectives& all, const CollectiveRules& rules) {
  return all.accumulation + (rules.reduces_every_pass ? all.reduce_copies : 0.0) +
         (rules.gathers_every_pass ? all.gather_copies : 0.0) + all.gather_copies_again;
}

// Of a micro-batch through the stage that computes least.
double least_compute(const StageCounts& counts, std::size_t recompute, const LayerBounds& layers,
                     const ShardingCosts* costs) {
  const bool has_copies = costs && has_whole_backward_passes(counts.layout().schedule);
  double least = 0.0;
  for (std::size_t kind = 0; kind < counts.kinds().size(); ++kind) {
    const double copies = has_copies ? copies_of_each(costs->kinds[kind], costs->rules) : 0.0;
    const double own = counts.own(kind, recompute).times(layers.compute) + copies;
    least = kind == 0 ? own : std::min(least, own);
  }
  return least;
}

}  // namespace

bool has_whole_backward_passes(PipelineSchedule schedule) {
  return schedule <= PipelineSchedule::Interleaved;
}

Seconds step_bound(StepShape shape, const StageCounts& counts, std::size_t recompute,
                   const LayerBounds& layers, const ShardingCosts* costs) {
  if (counts.layout().schedule == PipelineSchedule::DualPipe) shape.microbatches /= 2.0;
  const double passes = has_whole_backward_passes(counts.layout().schedule)
                            ? pipeline_bound(shape, counts, recompute, layers, costs)
                            : work_bound(shape, counts, recompute, layers);
  const double least = least_compute(counts, recompute, layers, costs);
  const double update = costs ? costs->update : 0.0;
  return Seconds((1.0 - kBoundRounding) *
                 (passes + shape.straggler * shape.microbatches * least + update + shape.per_step));
}

std::vector<StageParameters> stage_parameters(const RankParameters& rank,
                                              const StageCounts& counts) {
  std::vector<StageParameters> kinds;
  for (const EqualStages::Kind& kind : counts.kinds()) {
    StageParameters& sum = kinds.emplace_back();
    for (int chunk = 0; chunk < counts.layout().chunks(); ++chunk)
      sum += held_parameters(rank, counts.stages().chunk(kind.first, chunk));
  }
  return kinds;
}

}  // namespace llmsim::sim
