#include "sim/memory/shared_chunks.h"

namespace llmsim::sim {
namespace {

bool splits_some_backward(PipelineSchedule schedule) {
  return splits_backward(schedule) || schedule == PipelineSchedule::DualPipe;
}

Bytes weight_inputs_of(const Run& run, const LayerPrices& prices, const ModelChunk& chunk) {
  if (!splits_some_backward(run.strategy.pipeline_schedule)) return Bytes(0.0);
  const Bytes inputs =
      chunk.blocks > 0 ? chunk.blocks * mean_block(run, prices, chunk).weight_inputs : Bytes(0.0);
  return chunk.head ? inputs + prices.head.weight_inputs : inputs;
}

}  // namespace

ChunkMemory::ChunkMemory(const Run& run, const LayerPrices& prices, const RankParameters& rank,
                         const ModelChunk& chunk)
    : layers_(chunk_layers(run, prices, rank, chunk)),
      offloaded_(offloaded_bytes(run, layers_)),
      weight_inputs_(weight_inputs_of(run, prices, chunk)) {}

void ChunkMemory::use(const PassRules& rules) {
  if (rules_ == rules) return;
  rules_ = rules;
  const auto forget = [&](auto& passes) {
    if (passes) *passes = {layers_, rules_};
  };
  std::apply([&](auto&... passes) { (forget(passes), ...); }, passes_);
}

ChunkMemory& SharedChunks::of(const LayerPrices& prices, const ModelChunk& chunk) {
  const Strategy& strategy = run_.strategy;
  return *chunks_.of(
      run_,
      {.prices = &prices,
       .offloading_chunks = strategy.offload.activations ? strategy.virtual_stages : 0},
      chunk, [&] { return std::make_unique<ChunkMemory>(run_, prices, rank_, chunk); });
}

}  // namespace llmsim::sim
