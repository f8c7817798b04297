#include "sim/strategy/stages.h"

#include "sim/model/parameters.h"
#include "sim/strategy/low_precision_recipe.h"

namespace llmsim::sim {

bool StageLayout::embedding_meets_head() const {
  return stages == 1 || is_v_shaped(schedule) || schedule == PipelineSchedule::DualPipe;
}

std::optional<int> StageLayout::next_stage(int stage, int chunk, bool backward) const {
  if (stages == 1 || place(stage, chunk) == (backward ? 0 : model_chunks() - 1))
    return std::nullopt;
  const int next = stage + (goes_up(chunk) != backward ? -1 : 1);
  if (is_v_shaped(schedule) && (next < 0 || next == stages)) return std::nullopt;
  return (next + stages) % stages;
}

int StageLayout::chunk_microbatches() const {
  return schedule == PipelineSchedule::DualPipe ? num_microbatches / 2 : num_microbatches;
}

StageLayout stage_layout(const Strategy& strategy) {
  return {.schedule = strategy.pipeline_schedule,
          .stages = strategy.pp,
          .virtual_stages = strategy.virtual_stages,
          .num_microbatches = strategy.num_microbatches()};
}

bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::ZbH1 || is_v_shaped(schedule);
}

bool updates_unsynchronised(PipelineSchedule schedule) { return splits_backward(schedule); }

namespace {

// Layers that multi-token prediction and the head count as, if the last chunk has room for them.
int prediction_layers(const Transformer& model, int chunks) {
  if (model.mtp_layers == 0 || chunks == 1) return 0;
  const int counted = 2 * model.mtp_layers + 1;
  return (model.num_layers + counted) / chunks >= counted ? counted : 0;
}

// Chunks with their numbers of layers, those of multi-token prediction included.
std::vector<ModelChunk> evenly_divided(const Transformer& model, const Strategy& strategy,
                                       int count) {
  const int extra = strategy.embeddings_as_layers ? 2 : 0;
  const int prediction = prediction_layers(model, count);
  const int counted = model.num_layers + extra + prediction;
  std::vector<ModelChunk> chunks(static_cast<std::size_t>(count));
  for (ModelChunk& chunk : chunks) chunk.blocks = counted / count;
  const int remainder = counted % count;
  const int first = (count - remainder) / 2;
  for (int i = first; i < first + remainder; ++i) ++chunks[static_cast<std::size_t>(i)].blocks;
  if (strategy.embeddings_as_layers) {
    chunks.front().blocks -= 1;
    chunks.back().blocks -= 1;
  }
  chunks.back().blocks += model.mtp_layers - prediction;
  return chunks;
}

// The same with `stage_layers` for each chunk, or for each stage, whose chunks share them evenly, the
// first ones taking what is left.
std::vector<ModelChunk> divided_as_given(const Transformer& model, const Strategy& strategy,
                                         const StageLayout& layout) {
  std::vector<ModelChunk> chunks(static_cast<std::size_t>(layout.model_chunks()));
  const int given = static_cast<int>(strategy.stage_layers.size()),
            sharing = layout.model_chunks() / given;
  for (int i = 0; i < given; ++i) {
    const int layers = strategy.stage_layers[static_cast<std::size_t>(i)];
    for (int number = 0; number < sharing; ++number) {
      const int place = sharing == 1 ? i : layout.place(i, number);
      chunks[static_cast<std::size_t>(place)].blocks =
          layers / sharing + (number < layers % sharing ? 1 : 0);
    }
  }
  chunks.back().blocks += model.mtp_layers;
  return chunks;
}

}  // namespace

std::vector<ModelChunk> model_chunks(const Transformer& model, const Strategy& strategy) {
  const StageLayout layout = stage_layout(strategy);
  const int count = layout.model_chunks();
  std::vector<ModelChunk> chunks = strategy.stage_layers.empty()
                                       ? evenly_divided(model, strategy, count)
                                       : divided_as_given(model, strategy, layout);
  chunks.front().embedding = true;
  chunks.back().head = true;
  chunks.back().meets_embedding = count > 1 && layout.embedding_meets_head();
  int layer = 0;
  for (ModelChunk& chunk : chunks) {
    chunk.first_layer = layer;
    chunk.of_kind = count_layers(model, layer, chunk.blocks);
    chunk.moe_blocks = count_moe_layers(model, layer, chunk.blocks);
    layer += chunk.blocks;
  }
  return chunks;
}

bool have_equal_layers(const ModelChunk& one, const ModelChunk& other, const Transformer& model,
                       Precision precision, const LowPrecisionRecipe& recipe) {
  if (!(one == other)) return false;
  const bool has_high_precision = keeps_blocks_in_high_precision(recipe, precision);
  if (one.first_layer == other.first_layer || (one.has_one_kind() && !has_high_precision))
    return true;
  const auto is_high_precision = [&](int layer) {
    return has_high_precision && is_high_precision_layer(recipe, precision, model, layer);
  };
  for (int block = 0; block < one.blocks; ++block) {
    const int layer = one.first_layer + block, same = other.first_layer + block;
    if (!(kind_of_layer(model, layer) == kind_of_layer(model, same)) ||
        is_high_precision(layer) != is_high_precision(same))
      return false;
  }
  return true;
}

EqualStages::EqualStages(const Transformer& model, const Strategy& strategy,
                         const LowPrecisionRecipe& recipe)
    : layout_(stage_layout(strategy)), chunks_(model_chunks(model, strategy)) {
  chunk_kinds_.reserve(chunks_.size());
  for (std::size_t place = 0; place < chunks_.size(); ++place) {
    const ModelChunk& own = chunks_[place];
    const auto known =
        std::find_if(first_chunks_.begin(), first_chunks_.end(), [&](std::size_t first) {
          return have_equal_layers(chunks_[first], own, model, strategy.precision, recipe);
        });
    chunk_kinds_.push_back(static_cast<std::size_t>(known - first_chunks_.begin()));
    if (known == first_chunks_.end()) first_chunks_.push_back(place);
  }
  stage_kinds_.reserve(static_cast<std::size_t>(layout_.stages));
  for (int stage = 0; stage < layout_.stages; ++stage) {
    const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
      return have_equal_chunks(kind.first, stage);
    });
    stage_kinds_.push_back(static_cast<std::size_t>(known - kinds_.begin()));
    if (known == kinds_.end())
      kinds_.push_back({stage, stage});
    else
      known->last = stage;
  }
}

bool EqualStages::have_equal_chunks(int one, int other) const {
  for (int chunk = 0; chunk < layout_.chunks(); ++chunk) {
    if (chunk_kind(one, chunk) != chunk_kind(other, chunk)) return false;
  }
  return true;
}

double parameter_tensors(const Transformer& model, const ModelChunk& chunk) {
  constexpr int kFinalNorm = 2;
  const LayerKinds kinds = layer_kinds(model);
  int tensors =
      (chunk.embedding ? 1 : 0) + (chunk.head ? kFinalNorm + (model.tied_embeddings ? 0 : 1) : 0);
  for_each_kind(chunk.of_kind, [&](std::size_t slot, int blocks) {
    tensors += blocks * weight_tensors(model, kinds[slot]);
  });
  return tensors;
}

std::vector<ModelChunk> stage_chunks(const Transformer& model, const Strategy& strategy,
                                     int stage) {
  const std::vector<ModelChunk> all = model_chunks(model, strategy);
  std::vector<ModelChunk> chunks;
  for (int chunk = 0; chunk < stage_layout(strategy).chunks(); ++chunk)
    chunks.push_back(all[chunk_place(strategy, stage, chunk)]);
  return chunks;
}

std::size_t chunk_place(const Strategy& strategy, int stage, int chunk) {
  return static_cast<std::size_t>(stage_layout(strategy).place(stage, chunk));
}

Bytes stage_output(const Transformer& model, const Strategy& strategy) {
  const double tokens = real(strategy.micro_batch) * model.seq_len / strategy.cp;
  const double share = strategy.sequence_parallel ? strategy.tp : 1.0;
  return tokens * stream_size(model) / share * size_of(activation_dtype(strategy.precision));
}

}  // namespace llmsim::sim
