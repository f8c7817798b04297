#include "sim/schedule/data_parallel_collectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

DataParallelCollectives::DataParallelCollectives(const Run& run, const RankParameters& rank)
    : run_(run),
      rank_(rank),
      storage_(storage_of(run.strategy, run.framework)),
      shard_links_(group_links(run, shard_group())),
      replicate_links_(group_links(run, GroupKind::Replicate)),
      expert_links_(group_links(run, GroupKind::ExpertData)),
      overlapped_shard_(
          rates_overlapped(collective_share(shard_links_, run.cluster.device), run.cluster.device)),
      overlapped_replicate_(rates_overlapped(collective_share(replicate_links_, run.cluster.device),
                                             run.cluster.device)) {}

bool DataParallelCollectives::has_neighbours() const {
  return shard_links_.place.ranks > 1 || replicate_links_.place.ranks > 1 ||
         expert_links_.place.ranks > 1;
}

CollectiveKind DataParallelCollectives::gradient_collective() const {
  const bool whole = run_.framework.gradients.reduced_whole && !shards_weights();
  return shards_optimizer() && !whole ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
}

namespace {

// Share of a layer's parameters with at least `share` of them behind.
double share_before(const Transformer& model, LayerKind kind, double share) {
  double all = 0.0, behind = 0.0, before = 0.0;
  const LayerWeights weights = layer_weights(model, kind);
  for (const LayerWeight& weight : weights) all += real(weight.parameters());
  for (const LayerWeight* weight = weights.end(); weight-- != weights.begin();) {
    const double own = real(weight->parameters());
    if (behind >= share * all) before += own;
    behind += own;
  }
  return before / all;
}

}  // namespace

// Of the blocks' weights those that are used again after more than the limit.
double DataParallelCollectives::distant_share(const ModelChunk& chunk) const {
  const double near = 0.5 * run_.framework.sharded.live_parameters;
  if (near <= 0.0) return 1.0;
  const LayerKinds kinds = layer_kinds(run_.model);
  double distant = 0.0;
  for_each_kind(chunk.of_kind, [&](std::size_t slot, int blocks) {
    distant += blocks * share_before(run_.model, kinds[slot], near / rank_.kinds[slot].all());
  });
  return distant / chunk.blocks;
}

double DataParallelCollectives::least_backward_gathers(const ModelChunk& chunk) const {
  if (!regathers_weights() || chunk.blocks == 0) return 0.0;
  const double near = 0.5 * run_.framework.sharded.live_parameters;
  return 1.0 - std::min(1.0, near / rank_.held(chunk));
}

double DataParallelCollectives::backward_gathers(const ModelChunk& chunk) const {
  const double again = least_backward_gathers(chunk);
  const Recompute& recompute = run_.strategy.recompute;
  const bool inside = run_.framework.sharded.regathers_recomputed && recompute.whole();
  if (!regathers_weights() || !inside || chunk.blocks == 0) return again;
  return again + recompute.blocks_of(chunk.blocks) / chunk.blocks * distant_share(chunk);
}

double DataParallelCollectives::forward_gathers_per_step() const {
  if (!shards_optimizer()) return 0.0;
  return gathers_every_pass() ? backward_passes_per_step() : 1.0;
}

double DataParallelCollectives::weight_wire_bytes() const {
  if (run_.framework.sharded.flat_units && !shards_weights()) return storage_.weight_bytes;
  const Precision precision = run_.strategy.precision;
  const double in_16_bits = size_of(activation_dtype(precision)).value();
  const bool low_precision =
      run_.framework.low_precision.gathers && is_low_precision(matmul_dtype(precision));
  const double sent = low_precision
                          ? low_precision_bytes(run_.framework.low_precision, precision, true)
                          : in_16_bits;
  return std::min(storage_.weight_bytes, sent);
}

DataParallelTimes DataParallelCollectives::expert_times(double trained, double parameters) const {
  if (trained <= 0.0 && parameters <= 0.0) return {};
  return times_over(expert_links_, run_.strategy.expert_shard_ranks(), trained, parameters);
}

DataParallelTimes DataParallelCollectives::times_over(const GroupLinks& links, int ranks,
                                                      double trained, double parameters) const {
  DataParallelTimes result;
  const Bytes gradients{trained * gradient_wire_bytes()};
  if (shards_optimizer()) {
    result.gather =
        collective_time(CollectiveKind::AllGather, Bytes(parameters * weight_wire_bytes()), links);
  }
  result.scatter = collective_time(gradient_collective(), gradients, links);
  if (run_.strategy.replicates_shards()) {
    const Bytes shard = gradients / ranks;
    result.replicate = collective_time(CollectiveKind::AllReduce, shard, replicate_links_);
  }
  return result;
}

int DataParallelCollectives::units(const ModelChunk& chunk) const {
  double unit = run_.framework.sharded.unit_blocks;
  if (!shards_weights()) {
    const double bucket =
        std::max(run_.framework.gradients.bucket,
                 run_.framework.gradients.bucket_per_rank * shard_links_.place.ranks);
    unit = bucket > 0.0 ? bucket / trained_block(chunk) : 1.0;
  }
  if (unit <= 0.0) return 1;
  return std::max(1, static_cast<int>(std::ceil(chunk.blocks / unit - 1e-9)));
}

DataParallelTimes DataParallelCollectives::unit_times(const ModelChunk& chunk) const {
  const int count = units(chunk);
  const double share = real(chunk.blocks) / count;
  DataParallelTimes unit = times(share * trained_block(chunk), share * gathered_block(chunk));
  const double experts_gathered =
      shards_weights() ? rank_.divided_experts(chunk) : rank_.trained_divided_experts(chunk);
  const DataParallelTimes experts =
      expert_times(rank_.trained_divided_experts(chunk) / count, experts_gathered / count);
  unit.gather += experts.gather, unit.scatter += experts.scatter,
      unit.replicate += experts.replicate;
  return unit;
}

// Of the mean block, without divided experts.
double DataParallelCollectives::block_parameters(const ModelChunk& chunk) const {
  if (chunk.has_one_kind() && chunk.moe_blocks == 0) return rank_.kinds[chunk.first_kind()].own;
  return (rank_.blocks(chunk) - rank_.divided_experts(chunk)) / chunk.blocks;
}

OverlapLoss DataParallelCollectives::loss(const WorkMix& work) const {
  return {.channel = rate_loss(overlapped_shard_, work),
          .replicas = rate_loss(overlapped_replicate_, work)};
}

void DataParallelMessages::add(const DataParallelUnits& units, const DataParallelTimes& each) {
  count += units.count;
  parameters += units.count * units.parameters, trained += units.count * units.trained;
  times.gather += units.count * each.gather, times.scatter += units.count * each.scatter,
      times.replicate += units.count * each.replicate;
  const double gathers = units.count * units.backward_gathers;
  again.count += gathers, again.parameters += gathers * units.parameters;
  again.time += gathers * each.gather;
}

// Of units of so many parameters, padded: each a flat message, or full buckets and what is left
// where whole gradients travel in buckets.
std::vector<DataParallelUnits> DataParallelCollectives::flat_messages(std::vector<double> sizes,
                                                                      int ranks) const {
  for (double& size : sizes) size = std::ceil(size / ranks) * ranks;
  const double bucket = run_.framework.gradients.bucket;
  if (!shards_optimizer() && bucket > 0.0) {
    const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
    const double full = std::floor(all / bucket), rest = all - full * bucket;
    sizes.assign(static_cast<std::size_t>(full), bucket);
    if (rest > 0.0) sizes.push_back(rest);
  }
  std::vector<DataParallelUnits> list;
  for (const double size : sizes)
    list.push_back({1.0, size, size, regathers_weights() ? 1.0 : 0.0});
  return list;
}

std::vector<DataParallelUnits> DataParallelCollectives::message_units(
    const std::vector<ModelChunk>& chunks) const {
  if (run_.framework.sharded.flat_units) {
    std::vector<double> units;
    for (const ModelChunk& chunk : chunks) {
      if (chunk.embedding) units.push_back(rank_.embedding);
      if (chunk.embedding && rank_.tower > 0.0) units.push_back(rank_.tower);
      for_each_kind(chunk.of_kind, [&](std::size_t slot, int blocks) {
        units.insert(units.end(), static_cast<std::size_t>(blocks), rank_.without_divided(slot));
      });
      if (chunk.head)
        units.push_back(rank_.tied && chunk.has_table() ? rank_.head_layers : rank_.head);
    }
    return flat_messages(std::move(units), run_.strategy.shard_ranks());
  }
  std::vector<DataParallelUnits> list;
  double reduced = 0.0, gathered = 0.0;
  for (const ModelChunk& chunk : chunks) {
    const double share = real(chunk.blocks) / units(chunk);
    list.push_back({1.0 * units(chunk), share * gathered_block(chunk), share * trained_block(chunk),
                    backward_gathers(chunk)});
    reduced += embedding_and_head_parameters(chunk), gathered += gathered_embedding_and_head(chunk);
  }
  if (reduced > 0.0) list.push_back({1.0, gathered, reduced, regathers_weights() ? 1.0 : 0.0});
  return list;
}

std::vector<DataParallelUnits> DataParallelCollectives::expert_message_units(
    const std::vector<ModelChunk>& chunks) const {
  if (!rank_.experts_divided || rank_.adapted) return {};
  std::vector<DataParallelUnits> list;
  std::vector<double> experts;
  for (const ModelChunk& chunk : chunks) {
    for_each_kind(chunk.of_kind, [&](std::size_t slot, int blocks) {
      const double each = rank_.divided_experts(slot);
      if (each > 0.0) experts.insert(experts.end(), static_cast<std::size_t>(blocks), each);
    });
    if (chunk.moe_blocks == 0) continue;
    const double count = units(chunk), each = rank_.divided_experts(chunk) / count;
    list.push_back({count, each, each, backward_gathers(chunk)});
  }
  return run_.framework.sharded.flat_units
             ? flat_messages(std::move(experts), run_.strategy.expert_shard_ranks())
             : list;
}

DataParallelMessages DataParallelCollectives::messages(
    const std::vector<ModelChunk>& chunks) const {
  DataParallelMessages sum;
  for (const DataParallelUnits& units : message_units(chunks))
    sum.add(units, times(units.trained, units.parameters));
  return sum;
}

DataParallelMessages DataParallelCollectives::expert_messages(
    const std::vector<ModelChunk>& chunks) const {
  DataParallelMessages sum;
  for (const DataParallelUnits& units : expert_message_units(chunks))
    sum.add(units, expert_times(units.trained, units.parameters));
  return sum;
}

Bytes DataParallelCollectives::norm_message() const {
  const bool sums = run_.framework.update.sums_norm && run_.strategy.gradient_clip &&
                    shards_optimizer() && run_.optimizer_step;
  return Bytes(sums && shard_links_.place.ranks > 1 ? 4.0 : 0.0);
}

Seconds DataParallelCollectives::norm_time() const {
  return norm_message() > Bytes(0.0)
             ? collective_time(CollectiveKind::AllReduce, norm_message(), shard_links_)
             : Seconds(0.0);
}

double DataParallelCollectives::gathered_embedding_and_head(const ModelChunk& chunk) const {
  return shards_weights() && !run_.strategy.adapters ? rank_.read_embedding_and_head(chunk)
                                                     : embedding_and_head_parameters(chunk);
}

double DataParallelCollectives::head_parameters(const ModelChunk& chunk) const {
  return chunk.head && !run_.model.tied_embeddings && !run_.strategy.adapters ? rank_.head : 0.0;
}

namespace {

bool alone(const Strategy& strategy) { return strategy.dp * strategy.cp == 1; }

}  // namespace

double accumulation_bytes(const Run& run, const DataParallelCollectives& exchange) {
  if (run.framework.gradients.accumulated_by_gemm) return 0.0;
  // Without an update the sum is that of micro-batches before.
  const double share = run.optimizer_step ? 1.0 - 1.0 / run.strategy.num_microbatches() : 1.0;
  const double gradient = std::min(storage_of(run.strategy, run.framework).gradient_bytes,
                                   size_of(DType::Fp32).value());
  const bool on_shard =
      exchange.reduces_every_microbatch() && run.strategy.sharding > Sharding::Zero1;
  return 3.0 * gradient * share / (on_shard ? run.strategy.shard_ranks() : 1);
}

double reduction_copy_bytes(const Run& run, const DataParallelCollectives& exchange) {
  return alone(run.strategy)
             ? 0.0
             : 2.0 * exchange.gradient_wire_bytes() * run.framework.gradients.copies;
}

double gather_copy_bytes(const Run& run, const DataParallelCollectives& exchange) {
  return alone(run.strategy)
             ? 0.0
             : 2.0 * exchange.weight_wire_bytes() * run.framework.sharded.weight_copies;
}

}  // namespace llmsim::sim
