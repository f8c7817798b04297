#include "sim/schedule/data_exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace llmsim::sim {

DataExchange::DataExchange(const Run& run, const RankParameters& rank)
    : run_(run),
      rank_(rank),
      storage_(storage_of(run.strategy, run.stack)),
      shard_links_(group_links(run.strategy, shard_group(), run.cluster, run.stack.collective_efficiency)),
      replicate_links_(group_links(run.strategy, GroupKind::Replicate, run.cluster, run.stack.collective_efficiency)),
      beside_shard_(rates_beside(collective_share(shard_links_, run.cluster.device), run.cluster.device)),
      beside_replicate_(rates_beside(collective_share(replicate_links_, run.cluster.device), run.cluster.device)) {}

GroupKind DataExchange::shard_group() const {
  return run_.strategy.sharding == Sharding::Hsdp ? GroupKind::Shard : GroupKind::DataContext;
}

bool DataExchange::shards_weights() const {
  return run_.strategy.sharding == Sharding::Zero3 || run_.strategy.sharding == Sharding::Hsdp;
}

bool DataExchange::shards_optimizer() const { return run_.strategy.sharding != Sharding::None; }

bool DataExchange::reduces_every_microbatch() const { return shards_weights() || run_.stack.gradients.reduced_every_microbatch; }

double DataExchange::gathers_per_step() const {
  if (!shards_optimizer()) return 0.0;
  if (!shards_weights()) return 1.0;
  return run_.strategy.num_microbatches() * (run_.stack.sharded.regathers_in_backward ? 2.0 : 1.0);
}

double DataExchange::reductions_per_step() const { return reduces_every_microbatch() ? run_.strategy.num_microbatches() : 1.0; }

double DataExchange::gradient_wire_bytes() const {
  if (run_.stack.gradients.reduced_in_fp32) return 4.0;
  return std::min(storage_.gradient_bytes, size_of(activation_dtype(run_.strategy.precision)).value());
}

double DataExchange::weight_wire_bytes() const {
  if (run_.stack.sharded.flat_units && !shards_weights()) return storage_.weight_bytes;
  const DType wide = activation_dtype(run_.strategy.precision), narrow = matmul_dtype(run_.strategy.precision);
  const DType sent = run_.stack.narrow.gathers && size_of(narrow) < size_of(wide) ? DType::Fp8 : wide;
  return std::min(storage_.weight_bytes, size_of(sent).value());
}

ExchangeTimes DataExchange::times(double trained, double parameters) const {
  ExchangeTimes result;
  const Bytes gradients{trained * gradient_wire_bytes()};
  if (shards_optimizer()) {
    result.gather = collective_time(CollectiveKind::AllGather, Bytes(parameters * weight_wire_bytes()), shard_links_);
    result.scatter = collective_time(CollectiveKind::ReduceScatter, gradients, shard_links_);
  } else {
    result.scatter = collective_time(CollectiveKind::AllReduce, gradients, shard_links_);
  }
  if (run_.strategy.sharding == Sharding::Hsdp) {
    const Bytes shard = gradients / run_.strategy.shard_ranks();
    result.replicate = collective_time(CollectiveKind::AllReduce, shard, replicate_links_);
  }
  return result;
}

int DataExchange::units(int blocks) const {
  double unit = run_.stack.sharded.unit_blocks;
  if (!shards_weights()) {
    const double bucket = std::max(run_.stack.gradients.bucket, run_.stack.gradients.bucket_per_rank * shard_links_.place.ranks);
    unit = bucket > 0.0 ? bucket / trained_block() : 1.0;
  }
  if (unit <= 0.0) return 1;
  return std::max(1, static_cast<int>(std::ceil(blocks / unit - 1e-9)));
}

ExchangeTimes DataExchange::unit_times(int blocks) const {
  const double share = static_cast<double>(blocks) / units(blocks);
  return times(share * trained_block(), share * rank_.block);
}

OverlapLoss DataExchange::loss(const WorkMix& work) const {
  return {.channel = rate_loss(beside_shard_, work), .replicas = rate_loss(beside_replicate_, work)};
}

void ExchangedMessages::add(double messages, double of_parameters, double of_trained, const ExchangeTimes& each) {
  count += messages, parameters += of_parameters, trained += of_trained;
  times.gather += messages * each.gather, times.scatter += messages * each.scatter, times.replicate += messages * each.replicate;
}

// Parameters in each flat message, padded; full buckets and what is left where whole gradients travel in buckets.
std::vector<double> DataExchange::flat_messages(const std::vector<ModelPart>& parts) const {
  const double ranks = run_.strategy.shard_ranks();
  std::vector<double> sizes;
  for (const ModelPart& part : parts) {
    if (part.embedding) sizes.push_back(rank_.embedding);
    sizes.insert(sizes.end(), static_cast<std::size_t>(part.blocks), rank_.block);
    if (part.head) sizes.push_back(rank_.tied && part.embedding ? rank_.final_norm : rank_.head);
  }
  for (double& size : sizes) size = std::ceil(size / ranks) * ranks;
  const double bucket = run_.stack.gradients.bucket;
  if (shards_optimizer() || bucket <= 0.0) return sizes;
  const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  const double full = std::floor(all / bucket), rest = all - full * bucket;
  sizes.assign(static_cast<std::size_t>(full), bucket);
  if (rest > 0.0) sizes.push_back(rest);
  return sizes;
}

ExchangedMessages DataExchange::messages(const std::vector<ModelPart>& parts) const {
  ExchangedMessages sum;
  if (run_.stack.sharded.flat_units) {
    for (const double size : flat_messages(parts)) sum.add(1.0, size, size, times(size, size));
    return sum;
  }
  double ends = 0.0;
  for (const ModelPart& part : parts) {
    sum.add(units(part.blocks), part.blocks * rank_.block, part.blocks * trained_block(), unit_times(part.blocks));
    ends += end_parameters(part);
  }
  if (ends > 0.0) sum.add(1.0, ends, ends, times(ends, ends));
  return sum;
}

Bytes DataExchange::norm_message() const {
  const bool sums = run_.stack.update.sums_norm && shards_optimizer() && run_.optimizer_step;
  return Bytes(sums && shard_links_.place.ranks > 1 ? 4.0 : 0.0);
}

Seconds DataExchange::norm_time() const {
  return norm_message() > Bytes(0.0) ? collective_time(CollectiveKind::AllReduce, norm_message(), shard_links_) : Seconds(0.0);
}

double DataExchange::trained_block() const { return run_.strategy.adapters ? rank_.block_adapters : rank_.block; }

double DataExchange::end_parameters(const ModelPart& part) const { return run_.strategy.adapters ? 0.0 : rank_.ends(part); }

double DataExchange::head_parameters(const ModelPart& part) const {
  return part.head && !run_.model.tied_embeddings && !run_.strategy.adapters ? rank_.head : 0.0;
}

double DataExchange::trained_parameters(const ModelPart& part) const { return rank_.trained(part); }

}  // namespace llmsim::sim
