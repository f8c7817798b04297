#include "sim/memory/host_memory.h"

#include <algorithm>

#include "sim/memory/stage_contents.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

double update_bytes(const Run& run, const ParameterStorage& storage) {
  const double sums = run.stack.host_copies.gradients_return ? storage.gradient_bytes : 0.0;
  return storage.master_bytes + state_bytes_per_parameter(run.strategy.optimizer, storage) + size_of(DType::Fp32).value() + sums;
}

Bytes offloaded_checkpoints(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage) {
  const double passes = contents.chunks_in_flight(stage) / static_cast<double>(run.strategy.virtual_stages);
  const double stored = stored_inputs_per_block(run.strategy, run.stack);
  return std::max(0.0, passes * contents.blocks(stage) - 2.0) * stored * prices.block.saved;
}

Bytes offloaded(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage) {
  const Offload& offload = run.strategy.offload;
  const StateShards shards = state_shards(run.strategy);
  const ParameterStorage storage = storage_of(run.strategy, run.stack);
  Bytes bytes;
  if (offload.optimizer) bytes += Bytes(contents.trained(stage) * update_bytes(run, storage) / shards.optimizer);
  if (offload.parameters) bytes += Bytes(contents.held(stage) * storage.weight_bytes / shards.weights);
  if (offload.activations) bytes += offloaded_checkpoints(run, prices, contents, stage);
  return bytes;
}

}  // namespace

HostMemory host_memory(const Run& run, const LayerPrices& prices) {
  const Offload& offload = run.strategy.offload;
  HostMemory memory{.capacity = run.cluster.host_memory};
  if (!offload.optimizer && !offload.parameters && !offload.activations && run.stack.host_load_bytes <= 0.0) return memory;
  const StageContents contents(run.model, run.strategy);
  double model = 0.0;
  for (int stage = 0; stage < run.strategy.pipeline_parallel; ++stage) {
    memory.device = std::max(memory.device, offloaded(run, prices, contents, stage));
    model += contents.held(stage);
  }
  const Bytes loaded{model * run.stack.host_load_bytes};
  memory.loading = loaded > memory.device;
  memory.device = std::max(memory.device, loaded);
  memory.node = memory.device * run.cluster.devices_on_a_node();
  return memory;
}

}  // namespace llmsim::sim
