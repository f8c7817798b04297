// A model chunk on one rank: contiguous blocks, with the embedding before or the head
// after them where it has them.
//
// Under activation offload the input of a block that is recomputed waits on the host.
//
// forward() fills a tape for one micro-batch, backward() uses it up.  Between the two any number of
// other micro-batches may go forward: that is how pipelines use it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/model/block.h"
#include "runtime/model/embedding_and_head.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/model/token_stream.h"
#include "runtime/parallel/data_parallel.h"
#include "sim/strategy/stages.h"

namespace llmsim::runtime {

// What the loss of a step needs to know.
struct LossPlan {
  double tokens_of_step = 1.0;
  std::int64_t chunks = 0;  // of the chunked loss; 0: plain
};

struct ChunkTape {
  std::vector<BlockTape> blocks;
  HeadTape head;
};

class ModelChunk {
 public:
  // `context`, `data` must outlive it.  Blocks are numbered from `first_block` for the names of
  // their parameters.
  ModelChunk(const BlockContext& context, const sim::Strategy& strategy,
             const sim::ModelChunk& layers, int first_block, LossPlan loss, DataParallel& data);

  std::vector<ParameterUnit*> units() const;

  // `input`: the previous chunk's output; ignored by the chunk with the embedding.  Gives this
  // chunk's output, or with the head the loss.
  at::Tensor forward(at::Tensor input, const MicroBatch& batch, ChunkTape& tape);
  // `gradient`: of the output; ignored with the head.  Gives the gradient of the input; undefined
  // with the embedding.
  at::Tensor backward(at::Tensor gradient, const MicroBatch& batch, ChunkTape tape,
                      bool last_of_step);

 private:
  template <typename Visit>
  void for_units_of(std::size_t block, const Visit& visit) const;
  void add_block(const sim::Strategy& strategy, int layer);
  std::vector<ParameterUnit*> backward_units() const;
  sim::Recompute recompute_of(std::size_t block) const;
  bool offloads(std::size_t block) const;

  const BlockContext& context_;
  sim::Recompute recompute_;
  bool offloads_checkpoints_;
  LossPlan loss_;
  DataParallel& data_;
  std::unique_ptr<ParameterUnit> embedding_unit_, head_unit_;
  std::vector<std::unique_ptr<ParameterUnit>> block_units_;
  // By block; none where experts are not divided over ranks.
  std::vector<std::unique_ptr<ParameterUnit>> expert_units_;
  std::unique_ptr<Embedding> embedding_;
  std::unique_ptr<Head> head_;
  std::vector<Block> blocks_;
  bool tied_here_ = false;
};

}  // namespace llmsim::runtime
