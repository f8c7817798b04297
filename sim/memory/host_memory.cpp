#include "sim/memory/host_memory.h"

#include <algorithm>

#include "sim/memory/shards.h"
#include "sim/operators/update.h"
#include "sim/schedule/pipeline.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

class HostFootprint {
 public:
  HostFootprint(const Run& run, const LayerPrices& prices)
      : run_(run),
        strategy_(run.strategy),
        prices_(prices),
        parts_(model_parts(run.model, run.strategy)),
        rank_(rank_parameters(run.model, run.strategy)),
        storage_(storage_of(run.strategy, run.stack)) {}

  Bytes offloaded() const {
    Bytes most;
    for (int stage = 0; stage < strategy_.pipeline_parallel; ++stage) most = std::max(most, stage_bytes(stage));
    return most;
  }

  Bytes loaded() const {
    double whole = 0.0;
    for (const ModelPart& part : parts_) whole += part_parameters(rank_, part, run_.model.tied_embeddings);
    return Bytes(whole * run_.stack.host_load_bytes);
  }

 private:
  Bytes stage_bytes(int stage) const {
    Bytes bytes;
    const double parameters =
        stage_sum(stage, [&](const ModelPart& part) { return part_parameters(rank_, part, run_.model.tied_embeddings); });
    const double blocks = stage_sum(stage, [](const ModelPart& part) { return part.blocks; });
    const double trained = strategy_.adapters ? blocks * rank_.block_adapters : parameters;
    if (strategy_.offload.optimizer) bytes += Bytes(trained * update_bytes() / std::max(1, strategy_.shard_ranks()));
    if (strategy_.offload.parameters) bytes += Bytes(parameters * storage_.weight_bytes / weight_shards());
    if (strategy_.offload.activations) bytes += checkpoints(stage, blocks);
    return bytes;
  }

  double update_bytes() const {
    const double sums = run_.stack.host_copies.gradients_return ? storage_.gradient_bytes : 0.0;
    return storage_.master_bytes + state_bytes_per_parameter(strategy_.optimizer, storage_) + size_of(DType::Fp32).value() + sums;
  }

  double weight_shards() const {
    const bool sharded = strategy_.sharding == Sharding::Zero3 || strategy_.sharding == Sharding::Hsdp;
    return sharded ? std::max(1, strategy_.shard_ranks()) : 1.0;
  }

  Bytes checkpoints(int stage, double blocks) const {
    const PipelineShape shape{.schedule = strategy_.schedule,
                              .stages = strategy_.pipeline_parallel,
                              .virtual_stages = strategy_.virtual_stages,
                              .num_microbatches = strategy_.num_microbatches()};
    const double passes = peak_in_flight(shape, stage) / static_cast<double>(strategy_.virtual_stages);
    const double stored = stored_inputs_per_block(strategy_, run_.stack);
    return std::max(0.0, passes * blocks - 2.0) * stored * prices_.block.saved;
  }

  template <class Value>
  double stage_sum(int stage, const Value& value) const {
    double sum = 0.0;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      sum += value(parts_[static_cast<std::size_t>(chunk * strategy_.pipeline_parallel + stage)]);
    }
    return sum;
  }

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  std::vector<ModelPart> parts_;
  RankParameters rank_;
  ParameterStorage storage_;
};

}  // namespace

HostMemory host_memory(const Run& run, const LayerPrices& prices) {
  const Offload& offload = run.strategy.offload;
  HostMemory memory{.capacity = run.cluster.host_memory};
  if (!offload.optimizer && !offload.parameters && !offload.activations && run.stack.host_load_bytes <= 0.0) return memory;
  const HostFootprint footprint(run, prices);
  const Bytes offloaded = footprint.offloaded(), loaded = footprint.loaded();
  memory.loading = loaded > offloaded;
  memory.device = std::max(offloaded, loaded);
  memory.node = memory.device * run.cluster.devices_on_a_node();
  return memory;
}

}  // namespace llmsim::sim
