#include "sim/strategy/stages.h"

#include <algorithm>

#include "sim/strategy/stage_layout.h"

namespace llmsim::sim {

namespace {

// Layers that multi-token prediction and the head count as when layers are dealt, if the last part has room for them.
int prediction_layers(const Transformer& model, int parts) {
  if (model.mtp_layers == 0 || parts == 1) return 0;
  const int counted = 2 * model.mtp_layers + 1;
  return (model.num_layers + counted) / parts >= counted ? counted : 0;
}

}  // namespace

std::vector<ModelPart> model_parts(const Transformer& model, const Strategy& strategy) {
  const int count = stage_layout(strategy).parts();
  const int extra = strategy.embeddings_as_layers ? 2 : 0;
  const int prediction = prediction_layers(model, count);
  const int dealt = model.num_layers + extra + prediction;
  std::vector<ModelPart> parts(static_cast<std::size_t>(count));
  for (ModelPart& part : parts) part.blocks = dealt / count;
  const int remainder = dealt % count;
  const int first = (count - remainder) / 2;
  for (int i = first; i < first + remainder; ++i) ++parts[static_cast<std::size_t>(i)].blocks;
  parts.front().embedding = true;
  parts.back().head = true;
  parts.back().meets_embedding = count > 1 && stage_layout(strategy).ends_meet();
  if (strategy.embeddings_as_layers) {
    parts.front().blocks -= 1;
    parts.back().blocks -= 1;
  }
  parts.back().blocks += model.mtp_layers - prediction;
  int layer = 0;
  for (ModelPart& part : parts) {
    part.first_layer = layer;
    part.moe_blocks = count_moe_layers(model, layer, part.blocks);
    layer += part.blocks;
  }
  return parts;
}

std::vector<ModelPart> stage_parts(const Transformer& model, const Strategy& strategy, int stage) {
  const std::vector<ModelPart> all = model_parts(model, strategy);
  std::vector<ModelPart> parts;
  for (int chunk = 0; chunk < stage_layout(strategy).chunks(); ++chunk) parts.push_back(all[part_index(strategy, stage, chunk)]);
  return parts;
}

std::size_t part_index(const Strategy& strategy, int stage, int chunk) {
  return static_cast<std::size_t>(stage_layout(strategy).part(stage, chunk));
}

Bytes stage_output(const Transformer& model, const Strategy& strategy) {
  const double tokens = static_cast<double>(strategy.micro_batch) * model.seq_len / strategy.context_parallel;
  const double share = strategy.sequence_parallel ? strategy.tensor_parallel : 1.0;
  return tokens * model.hidden_size / share * size_of(activation_dtype(strategy.precision));
}

}  // namespace llmsim::sim
