#include "sim/strategy/stages.h"

#include <algorithm>

namespace llmsim::sim {

std::vector<ModelPart> model_parts(const Transformer& model, const Strategy& strategy) {
  const int count = strategy.pipeline_parallel * strategy.virtual_stages;
  const int extra = strategy.embeddings_as_layers ? 2 : 0;
  const int dealt = model.num_layers + extra;
  std::vector<ModelPart> parts(static_cast<std::size_t>(count));
  for (ModelPart& part : parts) part.blocks = dealt / count;
  const int remainder = dealt % count;
  const int first = (count - remainder) / 2;
  for (int i = first; i < first + remainder; ++i) ++parts[static_cast<std::size_t>(i)].blocks;
  parts.front().embedding = true;
  parts.back().head = true;
  if (strategy.embeddings_as_layers) {
    parts.front().blocks -= 1;
    parts.back().blocks -= 1;
  }
  return parts;
}

}  // namespace llmsim::sim
