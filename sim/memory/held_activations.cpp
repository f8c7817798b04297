#include "sim/memory/held_activations.h"

#include <algorithm>

namespace llmsim::sim {

Bytes most_held(std::span<const PipelinePass> order, std::span<const ChunkActivations> chunks) {
  Bytes now, most;
  for (const PipelinePass& pass : order) {
    const ChunkActivations& chunk = chunks[static_cast<std::size_t>(pass.chunk)];
    switch (pass.kind) {
      case PassKind::Forward: now += chunk.kept; break;
      case PassKind::Backward: now -= chunk.kept; break;
      case PassKind::DataGradient: now += chunk.waiting - chunk.kept; break;
      case PassKind::WeightGradient: now -= chunk.waiting; break;
    }
    most = std::max(most, now);
  }
  return most;
}

}  // namespace llmsim::sim
