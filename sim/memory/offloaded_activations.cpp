#include "sim/memory/offloaded_activations.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

constexpr double kBlocksThatStay = 2.0;

}  // namespace

double offloading_blocks(const Strategy& strategy, int blocks) {
  const int chosen = strategy.offload.blocks;
  return chosen == 0 ? blocks : std::min<double>(blocks, static_cast<double>(chosen) / strategy.virtual_stages);
}

Bytes offloaded_by_block(const Run& run, const BlockPrice& block) {
  return run.strategy.offload.modules.any() ? block.offloaded
                                            : stored_inputs_per_block(run.strategy, run.framework) * block.saved;
}

Bytes offloaded_activations(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage) {
  const double passes = contents.chunks_in_flight(stage) / static_cast<double>(contents.chunks());
  double blocks = 0.0;
  for (int chunk = 0; chunk < contents.chunks(); ++chunk) {
    blocks += offloading_blocks(run.strategy, contents.part(stage, chunk).blocks);
  }
  const BlockPrice& block = contents.moe_blocks(stage) > 0 ? prices.moe_block : prices.block;
  return std::max(0.0, passes * blocks - kBlocksThatStay) * offloaded_by_block(run, block);
}

}  // namespace llmsim::sim
