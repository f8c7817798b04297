#include "sim/schedule/step.h"

#include <algorithm>
#include <array>

#include "sim/cost/collective.h"
#include "sim/memory/shards.h"
#include "sim/operators/update.h"
#include "sim/schedule/overlap.h"
#include "sim/schedule/pipeline.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

enum Term {
  kForwardGemm,
  kForwardAttention,
  kForwardMemoryBound,
  kBackwardGemm,
  kBackwardAttention,
  kBackwardMemoryBound,
  kRecompute,
  kHeadAndLoss,
  kEmbedding,
  kTensorExposed,
  kGatherExposed,
  kReduceExposed,
  kContention,
  kLaunchWait,
  kOffloadExposed,
  kPipelineBubble,
  kOptimizer,
  kHost,
  kNumTerms
};

constexpr std::array<const char*, kNumTerms> kTermNames{"forward_gemm",
                                                        "forward_attention",
                                                        "forward_memory_bound",
                                                        "backward_gemm",
                                                        "backward_attention",
                                                        "backward_memory_bound",
                                                        "recompute",
                                                        "head_and_loss",
                                                        "embedding",
                                                        "tensor_parallel_exposed",
                                                        "weight_gather_exposed",
                                                        "gradient_reduce_exposed",
                                                        "contention",
                                                        "launch_wait",
                                                        "offload_exposed",
                                                        "pipeline_bubble",
                                                        "optimizer",
                                                        "host"};

using Terms = std::array<Seconds, kNumTerms>;

Terms operator+(Terms a, const Terms& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Terms scaled(Terms a, double factor) {
  for (Seconds& term : a) term *= factor;
  return a;
}

Seconds sum(const Terms& terms) {
  Seconds total;
  for (const Seconds term : terms) total += term;
  return total;
}

// Data-parallel exchange of one block's (or end's) weights and gradients.
struct Exchange {
  Seconds gather{};   // weights, before use
  Seconds scatter{};  // gradients: reduce-scatter or all-reduce, with the replicas' share under Hsdp
};

// How the forward and backward pass of one model part go, with and without the exchange of gradients at their end.
struct PartTimes {
  Terms forward{};
  Terms first_forward{};  // gathers updated weights of sharded optimizers
  Terms backward{};
  Terms last_backward{};
};

class StepSimulation {
 public:
  StepSimulation(const Run& run, const LayerPrices& prices)
      : run_(run),
        strategy_(run.strategy),
        stack_(run.stack),
        prices_(prices),
        parts_(model_parts(run.model, run.strategy)),
        rank_(rank_parameters(run.model, run.strategy)),
        storage_(storage_of(run.strategy, run.stack)),
        shard_links_(group_links(run.strategy, shard_group(), run.cluster, run.stack.collective_efficiency)),
        replicate_links_(group_links(run.strategy, GroupKind::Replicate, run.cluster, run.stack.collective_efficiency)),
        pipeline_links_(group_links(run.strategy, GroupKind::Pipeline, run.cluster, run.stack.collective_efficiency)) {
    block_exchange_ = exchange(trained_block(), rank_.block);
    for (std::size_t i = 0; i < parts_.size(); ++i) times_.push_back(known_part_times(i));
  }

  StepTimes run() {
    const PipelineTimes pipeline = run_pipeline();
    const int busiest = busiest_stage(pipeline);
    StepTimes step;
    Terms terms = stage_terms(busiest);
    const Seconds passes = sum(terms);
    const Seconds extra = sum(stage_extra(busiest));
    terms[kPipelineBubble] += pipeline.finish[static_cast<std::size_t>(busiest)] - (passes - extra);
    terms[kOptimizer] = update_time();
    terms[kReduceExposed] += tied_embedding_exchange();
    terms[kHost] = stack_.host_time_per_step;
    step.total = sum(terms);
    step.bubble = terms[kPipelineBubble] / (pipeline.finish[static_cast<std::size_t>(busiest)] + extra);
    for (int i = 0; i < kNumTerms; ++i) {
      const std::size_t index = static_cast<std::size_t>(i);
      if (terms[index] > Seconds(0.0)) step.breakdown.push_back({kTermNames[index], terms[index]});
    }
    add_communication(step, busiest, terms);
    return step;
  }

 private:
  // Most parts are alike: an equal part before this one has the same times.
  PartTimes known_part_times(std::size_t index) const {
    const auto end = parts_.begin() + static_cast<std::ptrdiff_t>(index);
    const auto twin = std::find(parts_.begin(), end, parts_[index]);
    return twin == end ? part_times(parts_[index]) : times_[static_cast<std::size_t>(twin - parts_.begin())];
  }

  GroupKind shard_group() const { return strategy_.sharding == Sharding::Hsdp ? GroupKind::Shard : GroupKind::DataContext; }

  bool shards_weights() const { return strategy_.sharding == Sharding::Zero3 || strategy_.sharding == Sharding::Hsdp; }
  bool shards_optimizer() const { return strategy_.sharding != Sharding::None; }
  bool reduces_every_microbatch() const { return shards_weights() || stack_.reduces_every_microbatch; }

  double trained_block() const { return strategy_.adapters ? rank_.block_adapters : rank_.block; }

  double gradient_wire_bytes() const { return stack_.gradient_reduce_in_fp32 ? 4.0 : std::min(storage_.gradient_bytes, 4.0); }
  double weight_wire_bytes() const {
    return std::min(storage_.weight_bytes, size_of(activation_dtype(strategy_.precision)).value());
  }

  Exchange exchange(double trained, double parameters) const {
    Exchange result;
    const Bytes gradients{trained * gradient_wire_bytes()};
    if (shards_optimizer()) {
      result.gather = collective_time(CollectiveKind::AllGather, Bytes(parameters * weight_wire_bytes()), shard_links_);
      result.scatter = collective_time(CollectiveKind::ReduceScatter, gradients, shard_links_);
    } else {
      result.scatter = collective_time(CollectiveKind::AllReduce, gradients, shard_links_);
    }
    if (strategy_.sharding == Sharding::Hsdp) {
      const Bytes shard = gradients / std::max(1, strategy_.shard_size);
      result.scatter += collective_time(CollectiveKind::AllReduce, shard, replicate_links_);
    }
    return result;
  }

  // Host link: parameters streamed in under offload, checkpoints streamed out.
  Seconds host_copy(Bytes size) const { return size / run_.cluster.device.host_bandwidth; }

  PartTimes part_times(const ModelPart& part) const {
    PartTimes times;
    const bool gathers = shards_weights();
    times.forward = forward_terms(part, gathers);
    times.first_forward = gathers || !shards_optimizer() ? times.forward : forward_terms(part, true);
    times.backward = backward_terms(part, reduces_every_microbatch(), false);
    times.last_backward = backward_terms(part, true, true);
    return times;
  }

  Terms forward_terms(const ModelPart& part, bool gathers) const {
    Terms terms{};
    int kernels = part.blocks * prices_.block.forward.kernels;
    add_blocks(terms, kForwardGemm, prices_.block.forward, part.blocks);
    if (part.embedding) terms[kEmbedding] += prices_.embedding.forward.total(), kernels += prices_.embedding.forward.kernels;
    if (part.head) terms[kHeadAndLoss] += prices_.head.forward.total(), kernels += prices_.head.forward.kernels;
    add_launch_wait(terms, kernels, 0.0);
    if (gathers) run_overlap(terms, part, true, false, kGatherExposed);
    add_host_traffic(terms, part, false);
    return terms;
  }

  Terms backward_terms(const ModelPart& part, bool reduces, bool last) const {
    Terms terms{};
    const double recomputed = recomputed_blocks(part);
    add_blocks(terms, kBackwardGemm, prices_.block.backward, part.blocks);
    terms[kRecompute] += recomputed * prices_.block.recompute.compute();
    terms[kTensorExposed] += recomputed * exposed_share() * prices_.block.recompute.collective;
    int kernels = part.blocks * prices_.block.backward.kernels + static_cast<int>(recomputed) * prices_.block.recompute.kernels;
    if (part.embedding) terms[kEmbedding] += prices_.embedding.backward.total(), kernels += prices_.embedding.backward.kernels;
    if (part.head) terms[kHeadAndLoss] += prices_.head.backward.total(), kernels += prices_.head.backward.kernels;
    add_launch_wait(terms, kernels, recomputed);
    add_backward_exchange(terms, part, reduces, last);
    add_host_traffic(terms, part, true);
    return terms;
  }

  double recomputed_blocks(const ModelPart& part) const {
    if (strategy_.recompute.kind == RecomputeKind::None) return 0.0;
    if (strategy_.recompute.kind != RecomputeKind::EveryN) return part.blocks;
    return static_cast<double>(part.blocks) / std::max(1, strategy_.recompute.every_n);
  }

  // Part of a tensor-parallel collective that its product does not hide.
  double exposed_share() const { return strategy_.tensor_overlap ? stack_.tensor_overlap_exposed : 1.0; }

  void add_blocks(Terms& terms, int first, const PassPrice& pass, double blocks) const {
    terms[static_cast<std::size_t>(first)] += blocks * pass.gemm;
    terms[static_cast<std::size_t>(first + 1)] += blocks * pass.attention;
    terms[static_cast<std::size_t>(first + 2)] += blocks * pass.memory_bound;
    terms[kTensorExposed] += blocks * exposed_share() * pass.collective;
  }

  // The host launches kernels one after the other; a pass is never faster than that.
  void add_launch_wait(Terms& terms, int kernels, double recomputed) const {
    if (strategy_.cuda_graph) return;
    const Seconds host = kernels * stack_.host_time_per_kernel + recomputed * stack_.host_time_per_recomputed_block;
    terms[kLaunchWait] += std::max(Seconds(0.0), host - sum(terms));
  }

  void add_backward_exchange(Terms& terms, const ModelPart& part, bool reduces, bool last) const {
    const bool gathers = shards_weights() && stack_.regathers_in_backward;
    if (!gathers && !reduces) return;
    if (!gathers && !strategy_.data_overlap && last) {
      terms[kReduceExposed] += whole_reduction(part);
      return;
    }
    run_overlap(terms, part, gathers, reduces, reduces ? kReduceExposed : kGatherExposed);
  }

  // All gradients of a part in one message, after the backward pass.
  Seconds whole_reduction(const ModelPart& part) const {
    const double trained =
        strategy_.adapters ? part.blocks * rank_.block_adapters : part_parameters(rank_, part, run_.model.tied_embeddings);
    return exchange(trained, 0.0).scatter;
  }

  // Spreads the pass's time over its blocks, runs both streams, and books what is exposed.
  void run_overlap(Terms& terms, const ModelPart& part, bool gathers, bool reduces, Term exposed) const {
    const Seconds compute = sum(terms);
    std::vector<OverlapBlock> blocks;
    const double count = std::max(1, part.blocks);
    const Exchange ends = exchange(end_parameters(part), end_parameters(part));
    if (part.embedding || part.head) blocks.push_back({.gather = gathers ? ends.gather : Seconds(0.0)});
    for (int i = 0; i < part.blocks; ++i) {
      blocks.push_back({.gather = gathers ? block_exchange_.gather : Seconds(0.0),
                        .compute = compute / count,
                        .reduce = reduces ? block_exchange_.scatter : Seconds(0.0)});
    }
    if (reduces && (part.embedding || part.head)) blocks.push_back({.reduce = ends.scatter});
    const OverlapTimes times = simulate_overlap(blocks, stack_.prefetches, strategy_.data_overlap);
    Seconds traffic;
    for (const OverlapBlock& block : blocks) traffic += block.gather + block.reduce;
    const Seconds wait = std::max(Seconds(0.0), times.end - compute);
    terms[static_cast<std::size_t>(exposed)] += wait;
    terms[kContention] += run_.cluster.device.achieved.contention * std::min(compute, std::max(Seconds(0.0), traffic - wait));
  }

  double end_parameters(const ModelPart& part) const {
    if (strategy_.adapters) return 0.0;
    double ends = 0.0;
    if (part.embedding) ends += rank_.embedding;
    if (part.head && !(run_.model.tied_embeddings && part.embedding)) ends += rank_.head;
    return ends;
  }

  // Checkpoints cross the host link beside the compute: only what is longer shows.  Streamed weights and gradients are waited for
  // where the stack states a rate of its own (its host copies are in the way), and hidden like checkpoints where it does not.
  void add_host_traffic(Terms& terms, const ModelPart& part, bool backward) const {
    const double owned = part_parameters(rank_, part, run_.model.tied_embeddings) / std::max(1, strategy_.shard_ranks());
    Seconds hidden, waited;
    if (strategy_.offload.activations) hidden += host_copy(part.blocks * prices_.block.saved);
    if (strategy_.offload.parameters) {
      const Bytes weights{owned * weight_wire_bytes()};
      stack_.offload_weight_rate ? waited += weights / * stack_.offload_weight_rate : hidden += host_copy(weights);
    }
    if (strategy_.offload.optimizer && backward) {
      const Bytes gradients{owned * storage_.gradient_bytes};
      stack_.offload_gradient_rate ? waited += gradients / * stack_.offload_gradient_rate : hidden += host_copy(gradients);
    }
    terms[kOffloadExposed] += waited + std::max(Seconds(0.0), hidden - sum(terms));
  }

  PipelineTimes run_pipeline() const {
    std::vector<ChunkTimes> chunks;
    for (const PartTimes& part : times_) chunks.push_back({.forward = sum(part.forward), .backward = sum(part.backward)});
    return simulate_pipeline(pipeline_shape(), chunks);
  }

  PipelineShape pipeline_shape() const {
    return {.schedule = strategy_.schedule,
            .stages = strategy_.pipeline_parallel,
            .virtual_stages = strategy_.virtual_stages,
            .num_microbatches = strategy_.num_microbatches(),
            .transfer = transfer_time()};
  }

  Bytes transfer_size() const {
    const double tokens = static_cast<double>(strategy_.micro_batch) * run_.model.seq_len / strategy_.context_parallel;
    const double share = strategy_.sequence_parallel ? strategy_.tensor_parallel : 1.0;
    return tokens * run_.model.hidden_size / share * size_of(activation_dtype(strategy_.precision));
  }

  Seconds transfer_time() const { return collective_time(CollectiveKind::SendRecv, transfer_size(), pipeline_links_); }

  const PartTimes& part_of(int stage, int chunk) const {
    return times_[static_cast<std::size_t>(chunk * strategy_.pipeline_parallel + stage)];
  }

  // Everything a stage does in a step, bubble excluded.
  Terms stage_terms(int stage) const {
    Terms terms{};
    const double m = strategy_.num_microbatches();
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      const PartTimes& part = part_of(stage, chunk);
      terms = terms + scaled(part.forward, m - 1.0) + part.first_forward + scaled(part.backward, m - 1.0) + part.last_backward;
    }
    return terms;
  }

  // What the first forward and the last backward pass take beyond the others.
  Terms stage_extra(int stage) const {
    Terms terms{};
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      const PartTimes& part = part_of(stage, chunk);
      terms = terms + part.first_forward + scaled(part.forward, -1.0) + part.last_backward + scaled(part.backward, -1.0);
    }
    return terms;
  }

  int busiest_stage(const PipelineTimes& pipeline) const {
    int busiest = 0;
    Seconds latest;
    for (int stage = 0; stage < strategy_.pipeline_parallel; ++stage) {
      const Seconds end = pipeline.finish[static_cast<std::size_t>(stage)] + sum(stage_extra(stage));
      if (end > latest) latest = end, busiest = stage;
    }
    return busiest;
  }

  double largest_stage_parameters() const {
    double largest = 0.0;
    for (int stage = 0; stage < strategy_.pipeline_parallel; ++stage) {
      double sum_of_chunks = 0.0;
      for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
        const ModelPart& part = parts_[static_cast<std::size_t>(chunk * strategy_.pipeline_parallel + stage)];
        sum_of_chunks +=
            strategy_.adapters ? part.blocks * rank_.block_adapters : part_parameters(rank_, part, run_.model.tied_embeddings);
      }
      largest = std::max(largest, sum_of_chunks);
    }
    return largest;
  }

  Seconds update_time() const {
    if (!run_.optimizer_step) return Seconds(0.0);
    const double parameters = largest_stage_parameters();
    const double owned = shards_optimizer() ? parameters / strategy_.shard_ranks() : parameters;
    const double gradients = strategy_.sharding == Sharding::None ? parameters : owned;
    const OperatorList update = lower_update(strategy_.optimizer, stack_, owned, gradients);
    if (strategy_.offload.optimizer) return host_update_time(owned, update);
    const Achieved& achieved = run_.cluster.device.achieved;
    const BytesPerSecond bandwidth = achieved.memory_fraction * run_.cluster.device.memory_bandwidth;
    return total_moved(update) / bandwidth + total_kernels(update) * achieved.kernel_time;
  }

  // The CPU updates at the speed of its memory; new weights go up where the device keeps a copy.
  Seconds host_update_time(double owned, const OperatorList& update) const {
    const Bytes up{strategy_.offload.parameters ? 0.0 : owned * storage_.weight_bytes};
    return total_moved(update) / run_.cluster.device.host_memory_bandwidth + host_copy(up);
  }

  // A tied head on another stage than the embedding: both copies add their gradients.
  Seconds tied_embedding_exchange() const {
    if (!run_.model.tied_embeddings || strategy_.pipeline_parallel == 1 || strategy_.adapters) return Seconds(0.0);
    return 2.0 * collective_time(CollectiveKind::SendRecv, Bytes(rank_.embedding * gradient_wire_bytes()), pipeline_links_);
  }

  void add_communication(StepTimes& step, int busiest, const Terms& terms) const {
    add_tensor_communication(step, busiest, terms);
    add_data_communication(step, busiest, terms);
    if (strategy_.pipeline_parallel > 1) {
      const double count = 2.0 * strategy_.num_microbatches() * strategy_.virtual_stages;
      step.communication.push_back({.collective = name_of(CollectiveKind::SendRecv),
                                    .group = name_of(GroupKind::Pipeline),
                                    .ranks = strategy_.pipeline_parallel,
                                    .size = count * transfer_size(),
                                    .count = count,
                                    .time = count * transfer_time(),
                                    .exposed = std::min(count * transfer_time(), terms[kPipelineBubble])});
    }
  }

  void add_tensor_communication(StepTimes& step, int busiest, const Terms& terms) const {
    if (strategy_.tensor_parallel == 1) return;
    CollectiveTallies tallies{};
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      const ModelPart& part = parts_[static_cast<std::size_t>(chunk * strategy_.pipeline_parallel + busiest)];
      add_scaled(tallies, prices_.block.forward, part.blocks);
      add_scaled(tallies, prices_.block.backward, part.blocks);
      add_scaled(tallies, prices_.block.recompute, recomputed_blocks(part));
      if (part.embedding) add_scaled(tallies, prices_.embedding.forward, 1.0);
      if (part.head) add_scaled(tallies, prices_.head.forward, 1.0), add_scaled(tallies, prices_.head.backward, 1.0);
    }
    const double m = strategy_.num_microbatches();
    Seconds all;
    for (const CollectiveTally& tally : tallies) all += m * tally.time;
    for (int i = 0; i < kNumCollectives; ++i) {
      const CollectiveTally& tally = tallies[static_cast<std::size_t>(i)];
      if (tally.count == 0.0) continue;
      step.communication.push_back({.collective = name_of(static_cast<CollectiveKind>(i)),
                                    .group = name_of(GroupKind::Tensor),
                                    .ranks = strategy_.tensor_parallel,
                                    .size = m * tally.message,
                                    .count = m * tally.count,
                                    .time = m * tally.time,
                                    .exposed = terms[kTensorExposed] * (m * tally.time / all)});
    }
  }

  static void add_scaled(CollectiveTallies& tallies, const PassPrice& pass, double times) {
    for (std::size_t i = 0; i < tallies.size(); ++i) {
      tallies[i].count += times * pass.tensor_collectives[i].count;
      tallies[i].message += times * pass.tensor_collectives[i].message;
      tallies[i].time += times * pass.tensor_collectives[i].time;
    }
  }

  void add_data_communication(StepTimes& step, int busiest, const Terms& terms) const {
    if (shard_links_.place.ranks <= 1 && replicate_links_.place.ranks <= 1) return;
    double blocks = 0.0, ends = 0.0;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      const ModelPart& part = parts_[static_cast<std::size_t>(chunk * strategy_.pipeline_parallel + busiest)];
      blocks += part.blocks;
      ends += end_parameters(part);
    }
    const double m = strategy_.num_microbatches();
    const double gathers = !shards_optimizer() ? 0.0 : shards_weights() ? m * (stack_.regathers_in_backward ? 2.0 : 1.0) : 1.0;
    const double reduces = reduces_every_microbatch() ? m : 1.0;
    const Exchange end_exchange = exchange(ends, ends);
    const Bytes weights{(blocks * rank_.block + ends) * weight_wire_bytes()};
    const Bytes gradients{(blocks * trained_block() + ends) * gradient_wire_bytes()};
    const double messages = blocks + (ends > 0.0 ? 1.0 : 0.0);
    if (gathers > 0.0) {
      step.communication.push_back({.collective = name_of(CollectiveKind::AllGather),
                                    .group = name_of(shard_group()),
                                    .ranks = shard_links_.place.ranks,
                                    .size = gathers * weights,
                                    .count = gathers * messages,
                                    .time = gathers * (blocks * block_exchange_.gather + end_exchange.gather),
                                    .exposed = terms[kGatherExposed]});
    }
    const CollectiveKind reduction = shards_optimizer() ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    step.communication.push_back({.collective = name_of(reduction),
                                  .group = name_of(shard_group()),
                                  .ranks = shard_links_.place.ranks,
                                  .size = reduces * gradients,
                                  .count = reduces * messages,
                                  .time = reduces * (blocks * block_exchange_.scatter + end_exchange.scatter),
                                  .exposed = terms[kReduceExposed]});
  }

  const Run& run_;
  const Strategy& strategy_;
  const Stack& stack_;
  const LayerPrices& prices_;
  std::vector<ModelPart> parts_;
  RankParameters rank_;
  ParameterStorage storage_;
  GroupLinks shard_links_;
  GroupLinks replicate_links_;
  GroupLinks pipeline_links_;
  Exchange block_exchange_;
  std::vector<PartTimes> times_;
};

}  // namespace

StepTimes simulate_step(const Run& run, const LayerPrices& prices) { return StepSimulation(run, prices).run(); }

Seconds step_time(const Run& run, const LayerPrices& prices) { return simulate_step(run, prices).total; }

}  // namespace llmsim::sim
