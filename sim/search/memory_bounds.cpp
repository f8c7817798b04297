#include "sim/search/memory_bounds.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/memory/chunk_layers.h"
#include "sim/memory/stage_bytes.h"

namespace llmsim::sim {
std::vector<StateBounds> state_bounds(const Run& run, const RankParameters& rank,
                                      const std::vector<StageParameters>& held) {
  const UnitRules rules = unit_rules(run.strategy, run.framework);
  const bool counted = rules.counted(), own = rules.leaves_own_gradients(true, false);
  std::vector<StateBounds> bounds;
  for (const StageParameters& parameters : held) {
    const StageBytes bytes = least_stage_bytes(run, rank, parameters);
    const Bytes lasting = lasting_terms(bytes, run.framework).total(),
                gradients = run.framework.gradients.persist ? Bytes(0.0) : bytes.gradients,
                gathered = counted ? Bytes(0.0) : bytes.gathered,
                unreduced = counted ? Bytes(0.0) : bytes.unreduced_gradients;
    bounds.push_back(
        {.passes = (lasting + gathered).value(),
         .steady = (lasting + gathered + (own ? gradients : Bytes(0.0)) + unreduced).value(),
         .update = (lasting + gradients + bytes.main_gradients + bytes.temporaries).value()});
  }
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

// What `recomputed` blocks of a chunk leave beyond others of their kinds, where it is not known which
// these are: as many as there are of the kind that leaves least, then of the next.
double least_left(const ModelChunk& chunk, double recomputed, const KindTable<double>& left) {
  KindTable<double> blocks{};
  for_each_kind(chunk.of_kind, [&](std::size_t slot, int count) { blocks[slot] = count; });
  double sum = 0.0;
  while (recomputed > 0.0) {
    std::size_t least = blocks.size();
    for (std::size_t slot = 0; slot < blocks.size(); ++slot)
      if (blocks[slot] > 0.0 && (least == blocks.size() || left[slot] < left[least])) least = slot;
    if (least == blocks.size()) break;
    const double taken = std::min(recomputed, blocks[least]);
    sum += taken * left[least];
    recomputed -= taken, blocks[least] = 0.0;
  }
  return sum;
}

// What the blocks of a chunk leave, with its embedding and head.
double left_by_layers(const ModelChunk& chunk, const LayerSums& sums, const LayerSums& left) {
  if (chunk.has_one_kind()) return sums.times(left);
  LayerSums others = sums;
  others.recomputed = {};
  double recomputed = 0.0;
  for (const double of_kind : sums.recomputed) recomputed += of_kind;
  return others.times(left) + least_left(chunk, recomputed, left.recomputed);
}

double left_by(const ModelChunk& chunk, const LayerSums& sums, const LayerBounds& layers) {
  const double received = chunk.embedding ? 0.0 : layers.residual,
               sent = chunk.head || layers.sent_outputs_stay ? 0.0 : layers.residual;
  return left_by_layers(chunk, sums, layers.left) + received - sent;
}

// Of the layer at which a backward pass begins.
double rise_at(const ModelChunk& chunk, const LayerBounds& layers) {
  if (chunk.head) return layers.rise.head;
  if (chunk.blocks == 0) return 0.0;
  double block = std::numeric_limits<double>::infinity();
  for_each_kind(chunk.of_kind,
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
      const ModelChunk& own_chunk = stages.chunk(stage, chunk);
      if (chunk == 0 || stages.chunk_kind(stage, chunk) != stages.chunk_kind(stage, chunk - 1))
        each = left_by(own_chunk, counts.chunk(kind, chunk, recompute), layers);
      left += own.first[at] * each;
      if (!own.steady.empty()) steady += own.steady[at] * each;
      has_blocks = has_blocks || own_chunk.blocks > 0;
    }
    const double rise = rise_at(stages.chunk(stage, chunks - 1), layers);
    bounds[kind] = {
        .first = std::max(0.0, left + std::max(0.0, rise)),
        .steady = std::max(0.0, steady),
        .goes_on = has_blocks && (chunks == 1 ? shape.num_microbatches > 1 : !own.steady.empty())};
  }
}

Bytes peak_bound(const std::vector<StateBounds>& states,
                 const std::vector<StageActivations>& activations) {
  double most = 0.0;
  for (std::size_t kind = 0; kind < states.size(); ++kind) {
    const StateBounds& own = states[kind];
    most = std::max({most, own.passes + activations[kind].first, own.update});
    if (activations[kind].goes_on) most = std::max(most, own.steady + activations[kind].steady);
  }
  return Bytes((1.0 - kBoundRounding) * most);
}

}  // namespace llmsim::sim
