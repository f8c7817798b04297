#include "sim/memory/host_memory.h"

#include <algorithm>

#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

constexpr double kBlocksThatStay = 2.0;

double update_bytes(const Run& run, const ParameterStorage& storage) {
  const double sums = run.framework.host_copies.gradients_return ? storage.gradient_bytes : 0.0;
  return storage.master_bytes + state_bytes_per_parameter(run.strategy.optimizer, storage) +
         size_of(DType::Fp32).value() + sums;
}

Bytes offloaded(const Run& run, const LayerPrices& prices, const StageContents& contents,
                int stage) {
  const Offload& offload = run.strategy.offload;
  const StateShards shards = state_shards(run.strategy);
  const StateShards expert_shards = expert_state_shards(run.strategy);
  const ParameterStorage storage = storage_of(run.strategy, run.framework);
  Bytes bytes;
  const double apart = contents.apart(stage), trained_apart = run.strategy.adapters ? 0.0 : apart;
  const auto divided = [](double whole, double experts, double ranks, double expert_ranks) {
    return (whole - experts) / ranks + experts / expert_ranks;
  };
  if (offload.optimizer) {
    const double owned =
        divided(contents.trained(stage), trained_apart, shards.optimizer, expert_shards.optimizer);
    bytes += Bytes(owned * update_bytes(run, storage));
  }
  if (offload.parameters) {
    bytes += Bytes(divided(contents.held(stage), apart, shards.weights, expert_shards.weights) *
                   storage.weight_bytes);
  }
  if (offload.activations) bytes += offloaded_activations(run, prices, contents, stage);
  return bytes;
}

}  // namespace

HostMemory host_memory(const Run& run, const LayerPrices& prices) {
  const Offload& offload = run.strategy.offload;
  HostMemory memory{.capacity = run.cluster.host_memory};
  if (!offload.optimizer && !offload.parameters && !offload.activations &&
      run.framework.host_load_bytes <= 0.0)
    return memory;
  const StageContents contents(run.model, run.strategy);
  double model = 0.0;
  for (int stage = 0; stage < run.strategy.pp; ++stage) {
    memory.device = std::max(memory.device, offloaded(run, prices, contents, stage));
    model += contents.held(stage);
  }
  const Bytes loaded{model * run.framework.host_load_bytes};
  memory.loading = loaded > memory.device;
  memory.device = std::max(memory.device, loaded);
  memory.node = memory.device * run.cluster.devices_on_a_node();
  return memory;
}

double offloading_blocks(const Strategy& strategy, int blocks) {
  const int chosen = strategy.offload.blocks;
  return chosen == 0
             ? blocks
             : std::min<double>(blocks, static_cast<double>(chosen) / strategy.virtual_stages);
}

Bytes offloaded_by_block(const Run& run, const BlockPrice& block) {
  return run.strategy.offload.modules.any()
             ? block.offloaded
             : stored_inputs_per_block(run.strategy, run.framework) * block.saved;
}

Bytes offloaded_activations(const Run& run, const LayerPrices& prices,
                            const StageContents& contents, int stage) {
  const double passes = contents.chunks_in_flight(stage) / static_cast<double>(contents.chunks());
  double blocks = 0.0;
  for (int chunk = 0; chunk < contents.chunks(); ++chunk) {
    blocks += offloading_blocks(run.strategy, contents.part(stage, chunk).blocks);
  }
  const BlockPrice& block = contents.moe_blocks(stage) > 0 ? prices.moe_block : prices.block;
  return std::max(0.0, passes * blocks - kBlocksThatStay) * offloaded_by_block(run, block);
}

}  // namespace llmsim::sim
