// The collectives of data parallelism: weights are gathered before use, gradients reduced after it.
//
//   None        all-reduce of the gradients
//   Zero1, 2    reduce-scatter of the gradients, an all-reduce where the framework reduces them
//               whole (GradientBehaviour::reduced_whole); all-gather of the updated weights
//   Zero3       the same for every pass, by FSDP units: weights are gathered for the forward pass
//               and, unless they stay gathered, for the backward pass; in a pipeline of a framework
//               whose units stay gathered through the step (gathers_units_once) once, as in ZeRO-2
//   Hsdp        as Zero3 inside a shard group, then an all-reduce of each shard over the replicas
//
// The number of times that a backward pass gathers a weight is the sum of
//
//   again       1 where it is freed after the forward pass, else 0
//   recomputed  1 where units are inside the checkpoint of a recomputed block, else 0: the unit is
//               freed when its forward pass has been repeated, and gathered for its backward pass.
//               With the unit around the checkpoint, the weights that the recomputation has
//               gathered are still there
//
// With a limit of L parameters (ShardedWeights::live_parameters) a weight stays gathered if its
// next use comes within L parameters.  A weight with y parameters behind it is used again after 2
// y, so that the share min(1, L / 2 N) of a chunk of N parameters stays between its passes, and in
// a recomputed block the weights with less than L / 2 parameters behind them in the block.
//
// Messages are the parameters of one unit or bucket (ShardedWeights::unit_blocks,
// GradientBehaviour::bucket): 2 or 4 bytes a gradient as the framework reduces them, for weights
// the compute format, or one byte where an 8-bit recipe quantises before it gathers.  Routed
// experts that are divided over expert ranks use the same collectives among the ranks that have the
// same experts.
//
// Gradient accumulation and the copies around collectives are memory traffic inside a device, in
// bytes per parameter on a rank:
//
//   accumulation   3 g            read the sum and the new gradient, write the sum; not for the
//                                 first micro-batch of a step, and not where the GEMMs add into the
//                                 sum themselves; on the shard where gradients are sharded
//   reduction      2 g copies     into and out of buckets and flat buffers
//   gather         2 w copies     out of the flat buffer that was gathered
//
// g and w are the bytes of a gradient and of a weight in a message; the numbers of copies are those
// of the framework.
//
// Sources: Rajbhandari et al., "ZeRO", SC 2020, section 7 (volumes); Zhao et al., "PyTorch FSDP",
// VLDB 2023 (units, HSDP); facebookresearch/fairscale issue 777 and pytorch issue 105635 (units
// inside and around a checkpoint); DeepSpeed runtime/zero/partitioned_param_coordinator.py,
// max_reuse_dist_in_numel (the limit); buckets and copies as torch's DistributedDataParallel,
// DeepSpeed and Megatron Core make them (strategy/framework.h).
#pragma once

#include <vector>

#include "sim/cost/collective.h"
#include "sim/cost/contention.h"
#include "sim/memory/shards.h"
#include "sim/run.h"
#include "sim/schedule/overlap.h"

namespace llmsim::sim {

// Times of the collectives of weights and gradients of some parameters.
struct DataParallelTimes {
  Seconds gather{};     // weights
  Seconds scatter{};    // gradients, to the shards' owners
  Seconds replicate{};  // gradients, between the replicas of a shard (Hsdp)

  Seconds reduce() const { return scatter + replicate; }
};

// Equal messages, and the parameters in one of them.
struct DataParallelUnits {
  double count = 0.0;
  double parameters = 0.0;  // padding included, as in `trained`
  double trained = 0.0;
  double backward_gathers = 0.0;  // times that a backward pass gathers them
};

// The weights that a backward pass gathers.
struct GatheredAgain {
  double count = 0.0;
  double parameters = 0.0;
  Seconds time{};
};

// The messages that gather all weights of a rank and reduce all its gradients, once.
struct DataParallelMessages {
  double count = 0.0;
  double parameters = 0.0;
  double trained = 0.0;
  DataParallelTimes times{};
  GatheredAgain again{};

  void add(const DataParallelUnits& units, const DataParallelTimes& each);
};

class DataParallelCollectives {
 public:
  // `run` and `rank` must outlive the exchange.
  DataParallelCollectives(const Run& run, const RankParameters& rank);

  // Whether there is another rank to which weights or gradients go.
  bool has_neighbours() const;
  bool shards_weights() const {
    return run_.strategy.sharding == Sharding::Zero3 || run_.strategy.sharding == Sharding::Hsdp;
  }
  bool shards_optimizer() const { return run_.strategy.sharding != Sharding::None; }
  bool gathers_every_pass() const { return sim::gathers_every_pass(run_.framework, run_.strategy); }
  // Whether the first forward pass of a step gathers them, and no other.
  bool gathers_once() const { return shards_optimizer() && !gathers_every_pass(); }
  // Whether backward passes gather what forward passes have freed.
  bool regathers_weights() const {
    return gathers_every_pass() && run_.framework.sharded.regathers_in_backward;
  }
  bool reduces_every_microbatch() const {
    return sim::reduces_every_microbatch(run_.framework, run_.strategy);
  }
  // By which gradients are summed over the ranks that share a copy of the states.
  CollectiveKind gradient_collective() const;
  // Number of times that the weights of a chunk's blocks are gathered in one of its backward
  // passes; and a lower bound of it, whatever is recomputed.
  double backward_gathers(const ModelChunk& chunk) const;
  double least_backward_gathers(const ModelChunk& chunk) const;
  // Times that each weight is gathered for forward passes of a step.
  double forward_gathers_per_step() const;
  // Backward passes of a step.
  double backward_passes_per_step() const {
    return stage_layout(run_.strategy).chunk_microbatches();
  }
  double reductions_per_step() const {
    return reduces_every_microbatch() ? backward_passes_per_step() : 1.0;
  }

  double gradient_wire_bytes() const { return sim::gradient_wire_bytes(run_); }
  double weight_wire_bytes() const;

  // Of `parameters` weights of which `trained` have gradients.
  DataParallelTimes times(double trained, double parameters) const {
    return times_over(shard_links_, run_.strategy.shard_ranks(), trained, parameters);
  }
  // Of routed experts that are divided over expert ranks, among those that have the same ones.
  DataParallelTimes expert_times(double trained, double parameters) const;
  // Number of messages for the blocks of a chunk, and the times of one of them with that of its
  // divided experts.
  int units(const ModelChunk& chunk) const;
  DataParallelTimes unit_times(const ModelChunk& chunk) const;

  // For all chunks of a stage: of everything but divided experts, and of these.
  DataParallelMessages messages(const std::vector<ModelChunk>& chunks) const;
  DataParallelMessages expert_messages(const std::vector<ModelChunk>& chunks) const;
  // The same message by message.
  std::vector<DataParallelUnits> message_units(const std::vector<ModelChunk>& chunks) const;
  std::vector<DataParallelUnits> expert_message_units(const std::vector<ModelChunk>& chunks) const;
  // The sum of squared norms over the shards, before the update; 0 where the framework sends none.
  Bytes norm_message() const;
  Seconds norm_time() const;

  // Gradients per block without divided experts, and of the embedding and the LM head of a chunk.
  double trained_block(const ModelChunk& chunk) const {
    return run_.strategy.adapters ? rank_.adapters(chunk.of_kind) / std::max(1, chunk.blocks)
                                  : block_parameters(chunk);
  }
  double embedding_and_head_parameters(const ModelChunk& chunk) const {
    return rank_.trained_embedding_and_head(chunk);
  }
  // Sharded weights go with every pass that reads them.
  double gathered_embedding_and_head(const ModelChunk& chunk) const;
  double head_parameters(const ModelChunk& chunk) const;  // those of an untied head
  double trained_parameters(const ModelChunk& chunk) const { return rank_.trained(chunk); }

  const GroupLinks& shard_links() const { return shard_links_; }
  const GroupLinks& replicate_links() const { return replicate_links_; }
  const GroupLinks& expert_links() const { return expert_links_; }
  GroupKind shard_group() const {
    return run_.strategy.replicates_shards() ? GroupKind::Shard : GroupKind::DataContext;
  }

  // Of work of this mix, while either communicator is busy.
  OverlapLoss loss(const WorkMix& work) const;

 private:
  DataParallelTimes times_over(const GroupLinks& links, int ranks, double trained,
                               double parameters) const;
  double block_parameters(const ModelChunk& chunk) const;
  // Parameters of a block that are gathered: all where weights are sharded; where only the
  // optimizer is sharded, those that are trained.
  double gathered_block(const ModelChunk& chunk) const {
    return shards_weights() ? block_parameters(chunk) : trained_block(chunk);
  }
  double distant_share(const ModelChunk& chunk) const;
  std::vector<DataParallelUnits> flat_messages(std::vector<double> sizes, int ranks) const;

  const Run& run_;
  const RankParameters& rank_;
  ParameterStorage storage_;
  GroupLinks shard_links_;
  GroupLinks replicate_links_;
  GroupLinks expert_links_;
  WorkRates overlapped_shard_;
  WorkRates overlapped_replicate_;
};

// Of one micro-batch, averaged over a step.
double accumulation_bytes(const Run& run, const DataParallelCollectives& exchange);

// Of one data-parallel reduction; 0 on a single rank.
double reduction_copy_bytes(const Run& run, const DataParallelCollectives& exchange);

// Of one gather of sharded weights; 0 on a single rank.
double gather_copy_bytes(const Run& run, const DataParallelCollectives& exchange);

}  // namespace llmsim::sim
