#include "sim/memory/walked_stage.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

constexpr int kSteadyMicroBatches = 3, kRoundsOfInterleaving = 3;

// Those of the chunk before that has the same, or new ones.
std::size_t layers_of(WalkedStage& stage, const LayerPrices& prices, const RankParameters& rank,
                      const ModelChunk& part) {
  for (const WalkedChunk& before : stage.chunks) {
    if (same_layers(prices, part, before.part)) return before.layers;
  }
  stage.layers.push_back(chunk_layers(stage.run, prices, rank, part));
  return stage.layers.size() - 1;
}

bool splits_some_backward(PipelineSchedule schedule) {
  return splits_backward(schedule) || schedule == PipelineSchedule::DualPipe;
}

Bytes weight_inputs(const Run& run, const LayerPrices& prices, const ModelChunk& part) {
  if (!splits_some_backward(run.strategy.pipeline_schedule)) return Bytes(0.0);
  const Bytes inputs =
      part.blocks > 0 ? part.blocks * mean_block(run, prices, part).weight_inputs : Bytes(0.0);
  return part.head ? inputs + prices.head.weight_inputs : inputs;
}

}  // namespace

std::vector<ModelChunk> WalkedStage::parts() const {
  std::vector<ModelChunk> parts;
  for (const WalkedChunk& chunk : chunks) parts.push_back(chunk.part);
  return parts;
}

int WalkedStage::blocks() const {
  int sum = 0;
  for (const WalkedChunk& chunk : chunks) sum += chunk.part.blocks;
  return sum;
}

Bytes WalkedStage::block_on_its_way() const {
  Bytes most;
  if (!run.strategy.offload.activations || !autograd()) return most;
  for (const Chunk& chunk : layers) {
    for (const Layer& layer : chunk.kinds()) most = std::max(most, layer.stored_less);
  }
  return most;
}

int WalkedStage::followed_microbatches() const {
  const int all = shape.num_microbatches, p = shape.stages;
  if (shape.schedule == PipelineSchedule::OneForwardOneBackward)
    return std::min(all, warmup_passes(shape, number) + kSteadyMicroBatches);
  if (shape.schedule != PipelineSchedule::Interleaved || all % p != 0) return all;
  return std::min(all, kRoundsOfInterleaving * p);
}

std::optional<int> WalkedStage::passes_to_peak() const {
  if (!autograd() || rules.units.freed || rules.gradients_come_and_go()) return std::nullopt;
  const int p = shape.stages, v = shape.virtual_stages, warmup = warmup_passes(shape, number);
  if (shape.schedule == PipelineSchedule::OneForwardOneBackward) return warmup + 2;
  if (shape.schedule == PipelineSchedule::Interleaved && shape.num_microbatches % p == 0)
    return warmup + 2 * p * v;
  return std::nullopt;
}

WalkedStage walked_stage(const Run& run, const LayerPrices& prices, const StageContents& contents,
                         int number) {
  const StageBytes bytes = stage_bytes(run, contents, number);
  WalkedStage stage{.run = run,
                    .number = number,
                    .shape = pipeline_shape(run.strategy),
                    .bytes = bytes,
                    .rules = pass_rules(run, bytes, contents.blocks(number))};
  for (int chunk = 0; chunk < contents.chunks(); ++chunk) {
    const ModelChunk& part = contents.part(number, chunk);
    const std::size_t layers = layers_of(stage, prices, contents.rank(), part);
    stage.chunks.push_back({.part = part,
                            .layers = layers,
                            .offloaded = offloaded_bytes(run, stage.layers[layers]),
                            .weight_inputs = weight_inputs(run, prices, part)});
  }
  return stage;
}

}  // namespace llmsim::sim
