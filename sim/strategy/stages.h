// The pipeline stages of a model: which chunks of it each holds, schedule by schedule, how its
// layers are divided among the chunks, and what a stage hands to the next.
//
// The model is cut into chunks of consecutive layers. A chunk's place is its number in the order of
// the model; a stage numbers the chunks that it holds from 0. With p stages and v chunks a stage
//
//   schedule             chunks of the model  chunk c of stage s has the place
//   GPipe, 1F1B, ZB-H1   p                    s
//   interleaved          p v                  c p + s
//   ZB-V, V-Half, V-Min  2 p                  s for c = 0, 2 p - 1 - s for c = 1: down the stages
//                                             and up again, so that the first stage has both the
//                                             embedding and the head
//   DualPipe             p                    s for c = 0, p - 1 - s for c = 1: every chunk is held
//                                             twice; half of the micro-batches go down the stages
//                                             through the chunks 0, half go up through the chunks 1
//
// Sources: Narayanan et al. 2021 (interleaved); Qi et al., "Pipeline Parallelism with Controllable
// Memory", arXiv 2405.15362 (V); DeepSeek-V3 technical report, arXiv 2412.19437 (DualPipe).
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

struct LowPrecisionRecipe;

struct StageLayout {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages = 1;
  int virtual_stages = 1;
  int num_microbatches = 1;

  int chunks() const {  // of every stage
    return schedule == PipelineSchedule::DualPipe ? 2 : virtual_stages;
  }
  int model_chunks() const {  // without copies
    return schedule == PipelineSchedule::DualPipe ? stages : stages * virtual_stages;
  }
  // Of chunk `chunk` of a stage, in the order of the model.
  int place(int stage, int chunk) const {
    return goes_up(chunk) ? model_chunks() - 1 - stage : chunk * stages + stage;
  }
  bool embedding_meets_head() const;  // the embedding and the head are on one stage
  // Where what a chunk makes goes, the activations of a forward or the gradients of a backward
  // pass; none where the stage itself, at the turn of a V, or nobody, at an end of the model,
  // needs it.
  std::optional<int> next_stage(int stage, int chunk, bool backward) const;
  // Micro-batches of a step that go through one chunk: all, or half of them where they come from
  // both ends.
  int chunk_microbatches() const;

 private:
  bool goes_up(int chunk) const {  // towards the first stage
    return chunk == 1 && (is_v_shaped(schedule) || schedule == PipelineSchedule::DualPipe);
  }
};

StageLayout stage_layout(const Strategy& strategy);

// Whether every backward pass is executed as two, data gradients and weight gradients (ZB-H1, ZB-V,
// V-Half, V-Min).  DualPipe splits only some of them, while it fills and drains.
bool splits_backward(PipelineSchedule schedule);

// Whether the next step of a stage begins when the stage itself has ended this one: the norm of the
// gradients is checked after the update, which is undone where it was too large (Qi et al. 2023,
// section 4).  Otherwise all stages wait for the last.
bool updates_unsynchronised(PipelineSchedule schedule);

// Consecutive layers of the model, which a stage holds.
struct ModelChunk {
  int blocks = 0;  // those of multi-token prediction included
  bool embedding = false;
  bool head = false;
  bool meets_embedding = false;  // has the head, and another chunk of the stage the embedding
  LayerCounts of_kind{};         // the blocks, by the model's kinds of layer
  int moe_blocks = 0;            // of the blocks: those with experts
  int first_layer = 0;           // of the model

  bool has_one_kind() const { return of_kind[first_kind()] == blocks; }
  // The first kind that it has; 0 where it has no blocks.
  std::size_t first_kind() const {
    const auto* found = std::find_if(of_kind.begin(), of_kind.end(), [](int n) { return n > 0; });
    return found == of_kind.end() ? 0 : static_cast<std::size_t>(found - of_kind.begin());
  }
  // Whether the stage of this chunk's head has the embedding's table.
  bool has_table() const { return embedding || meets_embedding; }
  // Whether two chunks have as many layers of each kind, wherever in the model they are.
  bool operator==(const ModelChunk& other) const {
    return blocks == other.blocks && embedding == other.embedding && head == other.head &&
           meets_embedding == other.meets_embedding && of_kind == other.of_kind;
  }
};

// All chunks in the order of the model: pipeline_parallel * virtual_stages.
//
// Layers are divided evenly; a remainder goes one each to the chunks in the middle first, because
// the first and the last also have the embedding and the head. With embeddings_as_layers those two
// count as one layer each. Layers of multi-token prediction belong to the last chunk, and each
// counts as two (its head is as long as a block), the head as one; so does Megatron-LM's layout of
// DeepSeek-V3, 4 layers in each of 16 chunks and 1 in the last.
//
// `stage_layers` gives the layers of each stage, which its chunks share evenly, or of each chunk;
// layers of multi-token prediction come on top of those of the last chunk.
std::vector<ModelChunk> model_chunks(const Transformer& model, const Strategy& strategy);

// Whether two chunks have the same layers in the same order, wherever in the model these are; where
// a low-precision recipe leaves some layers in 16 bits, the same ones of them.
bool have_equal_layers(const ModelChunk& one, const ModelChunk& other, const Transformer& model,
                       Precision precision, const LowPrecisionRecipe& recipe);

// The chunks of a model and the stages of its pipeline, and which of them are equal: what depends
// on a chunk's layers or on a stage's chunks alone is worked out once for each kind. Stages are
// equal whose chunks have equal layers, one after the other.
class EqualStages {
 public:
  struct Kind {
    int first = 0, last = 0;  // of the stages of the kind
  };

  EqualStages(const Transformer& model, const Strategy& strategy, const LowPrecisionRecipe& recipe);

  const StageLayout& layout() const { return layout_; }
  const std::vector<ModelChunk>& chunks() const { return chunks_; }  // in model order
  const ModelChunk& chunk(int stage, int chunk) const { return chunks_[place(stage, chunk)]; }

  // By the first of them, in its order.
  std::size_t num_chunk_kinds() const { return first_chunks_.size(); }
  const ModelChunk& chunk_of_kind(std::size_t kind) const { return chunks_[first_chunks_[kind]]; }
  std::size_t chunk_kind(std::size_t place) const { return chunk_kinds_[place]; }
  std::size_t chunk_kind(int stage, int chunk) const { return chunk_kinds_[place(stage, chunk)]; }

  const std::vector<Kind>& kinds() const { return kinds_; }
  std::size_t kind(int stage) const { return stage_kinds_[static_cast<std::size_t>(stage)]; }
  bool is_first_of_kind(int stage) const { return kinds_[kind(stage)].first == stage; }

 private:
  std::size_t place(int stage, int chunk) const {
    return static_cast<std::size_t>(layout_.place(stage, chunk));
  }
  bool have_equal_chunks(int one, int other) const;

  StageLayout layout_;
  std::vector<ModelChunk> chunks_;
  std::vector<std::size_t> chunk_kinds_, first_chunks_;
  std::vector<Kind> kinds_;
  std::vector<std::size_t> stage_kinds_;
};

// Parameter tensors of a chunk: those of its blocks (model/parameters.h), of the embedding, and
// of the last norm and an untied head.
double parameter_tensors(const Transformer& model, const ModelChunk& chunk);

// Those of one stage, chunk after chunk.
std::vector<ModelChunk> stage_chunks(const Transformer& model, const Strategy& strategy, int stage);

// Where in them chunk `chunk` of a stage is.
std::size_t chunk_place(const Strategy& strategy, int stage, int chunk);

// The residual stream of one micro-batch on one rank, divided over the tensor ranks with
// sequence parallelism.
Bytes stage_output(const Transformer& model, const Strategy& strategy);

}  // namespace llmsim::sim
