#include "sim/search/memory_bounds.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/memory/chunk_layers.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

// Bytes of a parameter at least, each kind of state divided by the ranks that share it.
struct StateBytes {
  double weights = 0.0, gradients = 0.0, owned = 0.0, main_gradients = 0.0, temporaries = 0.0;

  double lasting(const StateShards& shards, bool gradients_persist) const {
    return weights / shards.weights + owned / shards.optimizer +
           (gradients_persist ? gradients / shards.gradients : 0.0);
  }
  double update(const StateShards& shards) const {
    return lasting(shards, true) + (main_gradients + temporaries) / shards.optimizer;
  }
};

// A recipe that stores quantised weights has no others.
double weight_bytes(const Run& run, const ParameterStorage& storage) {
  const LowPrecisionRecipe& recipe = run.framework.low_precision;
  const Precision precision = run.strategy.precision;
  if (!recipe.stores_weights || !is_low_precision(matmul_dtype(precision)))
    return storage.weight_bytes;
  return std::min(storage.weight_bytes, low_precision_copies(recipe, precision) *
                                            low_precision_bytes(recipe, precision, true));
}

StateBytes state_bytes(const Run& run) {
  const Strategy& strategy = run.strategy;
  const UpdateBehaviour& update = run.framework.update;
  const ParameterStorage storage = storage_of(strategy, run.framework);
  StateBytes bytes;
  if (!strategy.offload.parameters) bytes.weights = weight_bytes(run, storage);
  if (strategy.adapters || strategy.offload.optimizer) return bytes;
  bytes.owned = storage.master_bytes + state_bytes_per_parameter(strategy.optimizer, storage);
  bytes.main_gradients = storage.main_gradient_bytes;
  if (update.in_backward) return bytes;
  bytes.gradients = storage.gradient_bytes;
  if (!update.unit_by_unit && update.parameters_at_once <= 0.0)
    bytes.temporaries = update_temporary_bytes(strategy.optimizer, storage, update);
  return bytes;
}

// Whole weights of sharded units at hand, where they are not counted one by one: of each parameter
// where they stay, else of so many blocks and the larger end.
struct GatheredWeights {
  double each = 0.0, fixed = 0.0;  // bytes
};

GatheredWeights gathered_weights(const Run& run, const RankParameters& rank) {
  const ShardedWeights& sharded = run.framework.sharded;
  const bool gathers = state_shards(run.strategy).weights > 1.0 || run.strategy.offload.parameters;
  if (!gathers || unit_rules(run.strategy, run.framework).counted()) return {};
  const double element = size_of(activation_dtype(run.strategy.precision)).value();
  const bool stay =
      !sharded.regathers_in_backward || gathers_units_once(run.framework, run.strategy);
  if (stay && run.strategy.sharding != Sharding::None) return {.each = element};
  const double unit = sharded.unit_blocks > 0.0 ? std::max(1.0, sharded.unit_blocks)
                                                : run.model.num_layers,
               blocks = std::min<double>(sharded.gathered_blocks * unit, run.model.num_layers) *
                        rank.largest_block(),
               end = std::max(rank.embedding, rank.head);
  return {.fixed = element * (sharded.live_parameters > 0.0 || !sharded.root_stays_gathered
                                  ? std::max(blocks, end)
                                  : blocks + end)};
}

// Whole gradients that micro-batches add to, where ranks divide what one reduction leaves.
double unreduced_bytes(const Run& run, const StateBytes& bytes) {
  const bool once = gathers_units_once(run.framework, run.strategy);
  const bool adds_up = (run.strategy.sharding == Sharding::Zero2 || once) &&
                       !run.strategy.adapters &&
                       !run.framework.gradients.reduced_every_microbatch &&
                       !unit_rules(run.strategy, run.framework).counted();
  if (!adds_up) return 0.0;
  return once ? gradient_wire_bytes(run) : bytes.gradients;
}

}  // namespace

StateBounds state_bounds(const Run& run, const RankParameters& rank) {
  const StateBytes bytes = state_bytes(run);
  const StateShards shards = state_shards(run.strategy),
                    experts = expert_state_shards(run.strategy);
  const bool persist = run.framework.gradients.persist;
  const GatheredWeights gathered = gathered_weights(run, rank);
  const double unreduced = unreduced_bytes(run, bytes);
  const auto of_passes = [&](const StateShards& of, bool gradients) {
    return bytes.lasting(of, gradients) + gathered.each;
  };
  StateBounds bounds{
      .lasting = {of_passes(shards, persist), of_passes(experts, persist)},
      .update = {bytes.update(shards), bytes.update(experts)},
      .steady = {of_passes(shards, true) + unreduced, of_passes(experts, true) + unreduced}};
  const MemoryReserve& reserve = run.framework.reserve;
  bounds.fixed =
      gathered.fixed + (reserve.matmul_workspaces *
                        reserve.matmul_workspace.value_or(run.cluster.device.matmul_workspace))
                           .value();
  if (run.strategy.dp > 1 || run.strategy.sharding != Sharding::None)
    bounds.fixed += reserve.framework.value();
  bounds.fixed_update = bounds.fixed - gathered.fixed;
  return bounds;
}

namespace {

// The first so many forward passes of a stage, by chunk: a group of micro-batches through chunk
// after chunk.
std::vector<int> passes_of_chunks(const PipelineShape& shape, int passes, int chunks) {
  std::vector<int> count(static_cast<std::size_t>(chunks), 0);
  const int group = chunks == 1 ? shape.num_microbatches : microbatch_group(shape);
  for (int first = 0; passes > 0 && first < shape.num_microbatches; first += group) {
    const int size = std::min(group, shape.num_microbatches - first);
    for (int& of_chunk : count) {
      const int taken = std::min(size, passes);
      of_chunk += taken, passes -= taken;
    }
  }
  return count;
}

// When the first chunk, the last to have one, has had its first backward pass, and the next forward
// pass has run.  The last chunk has not had its last one by then: there would be no forward pass
// left.
std::vector<int> steady_passes(const PipelineShape& shape, int in_flight, int chunks) {
  const int group = chunks == 1 ? 1 : std::min(microbatch_group(shape), shape.num_microbatches);
  const int backwards = (chunks - 1) * group + 1, forwards = in_flight + backwards;
  if (forwards > chunks * shape.num_microbatches) return {};
  std::vector<int> passes = passes_of_chunks(shape, forwards, chunks);
  const std::vector<int> done = passes_of_chunks(shape, backwards, chunks);
  std::transform(passes.begin(), passes.end(), done.rbegin(), passes.begin(), std::minus<>());
  return passes;
}

// What the blocks and ends of a part leave.  Of a part with several kinds of block it is not known
// which are recomputed: those that leave least.
double left_by_layers(const ModelChunk& part, const LayerSums& sums, const LayerSums& left) {
  if (part.has_one_kind()) return sums.times(left);
  LayerSums others = sums;
  others.recomputed = {};
  double recomputed = 0.0, least = std::numeric_limits<double>::infinity();
  for_each_kind(part.of_kind, [&](std::size_t slot, int) {
    recomputed += sums.recomputed[slot], least = std::min(least, left.recomputed[slot]);
  });
  return others.times(left) + recomputed * least;
}

double left_by(const ModelChunk& part, const LayerSums& sums, const LayerBounds& layers) {
  const double received = part.embedding ? 0.0 : layers.residual,
               sent = part.head || layers.sent_outputs_stay ? 0.0 : layers.residual;
  return left_by_layers(part, sums, layers.left) + received - sent;
}

// Of the layer at which a backward pass begins.
double rise_at(const ModelChunk& part, const LayerBounds& layers) {
  if (part.head) return layers.rise.head;
  if (part.blocks == 0) return 0.0;
  double block = std::numeric_limits<double>::infinity();
  for_each_kind(part.of_kind,
                [&](std::size_t slot, int) { block = std::min(block, layers.rise.blocks[slot]); });
  return layers.residual + block;
}

}  // namespace

std::vector<PassesInFlight> passes_in_flight(const PipelineShape& shape,
                                             const StageCounts& counts) {
  std::vector<PassesInFlight> list;
  if (!has_whole_backward_passes(shape.schedule)) return list;
  const int chunks = counts.layout().chunks();
  for (const EqualStages::Kind& stage : counts.kinds()) {
    const int all = peak_in_flight(shape, stage.first);
    list.push_back({passes_of_chunks(shape, all, chunks), steady_passes(shape, all, chunks)});
  }
  return list;
}

void activation_bounds(const PipelineShape& shape, const std::vector<PassesInFlight>& passes,
                       const StageCounts& counts, std::size_t recompute, const LayerBounds& layers,
                       std::vector<StageActivations>& bounds) {
  bounds.assign(counts.kinds().size(), {});
  if (passes.empty() || layers.activations_leave) return;
  const EqualStages& stages = counts.stages();
  const int chunks = stages.layout().chunks();
  for (std::size_t kind = 0; kind < bounds.size(); ++kind) {
    const int stage = counts.kinds()[kind].first;
    const PassesInFlight& own = passes[kind];
    double left = 0.0, steady = 0.0, each = 0.0;
    bool has_blocks = false;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const auto at = static_cast<std::size_t>(chunk);
      const ModelChunk& part = stages.chunk(stage, chunk);
      if (chunk == 0 || stages.chunk_kind(stage, chunk) != stages.chunk_kind(stage, chunk - 1))
        each = left_by(part, counts.chunk(kind, chunk, recompute), layers);
      left += own.first[at] * each;
      if (!own.steady.empty()) steady += own.steady[at] * each;
      has_blocks = has_blocks || part.blocks > 0;
    }
    const double rise = rise_at(stages.chunk(stage, chunks - 1), layers);
    bounds[kind] = {.first = std::max(0.0, left + std::max(0.0, rise)),
                    .steady = std::max(0.0, steady),
                    .goes_on = shape.num_microbatches > 1 && has_blocks};
  }
}

Bytes peak_bound(const StateBounds& states, const std::vector<StageParameters>& parameters,
                 const std::vector<StageActivations>& activations) {
  const auto bytes = [](const StageParameters& each, const StageParameters& all) {
    return each.shared * all.shared + each.experts * all.experts;
  };
  double most = 0.0;
  for (std::size_t kind = 0; kind < parameters.size(); ++kind) {
    const StageParameters& all = parameters[kind];
    most = std::max({most, bytes(states.lasting, all) + activations[kind].first + states.fixed,
                     bytes(states.update, all) + states.fixed_update});
    if (activations[kind].goes_on)
      most = std::max(most, bytes(states.steady, all) + activations[kind].steady + states.fixed);
  }
  return Bytes((1.0 - kBoundRounding) * most);
}

}  // namespace llmsim::sim
