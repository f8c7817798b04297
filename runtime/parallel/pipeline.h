// Executes the passes of one pipeline stage in the simulator's order (sim/pipeline/pipeline.h).
//
// Between stages travel the output of a chunk, this rank's part of the residual stream, and back
// the gradient of it.  A receive blocks; a send overlaps with what follows, and its tensor is held
// until sim::messages_under_way later ones of the same direction want to go, or the last pass is
// over.  With one stage nothing is sent and the order is that of a single process.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/model/model_chunk.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/rank_groups.h"
#include "sim/base/quantity.h"
#include "sim/pipeline/pipeline.h"

namespace llmsim::runtime {

// What a stage's neighbours send it: tensors of this shape and format.
struct Message {
  std::vector<std::int64_t> sizes;
  at::TensorOptions options;
};

// Messages of one direction, forward or back.
class StageLink {
 public:
  // `to`, `from`: stages.  `under_way`: sent tensors that are held at most.
  StageLink(Communicator* group, int from, int to, Message message, int under_way)
      : group_(group), from_(from), to_(to), message_(std::move(message)), under_way_(under_way) {}

  at::Tensor receive() const;
  void send(at::Tensor tensor);
  // Waits for all that was sent.
  void finish();

 private:
  struct Sent {
    at::Tensor tensor;
    std::unique_ptr<PendingCollective> pending;
  };
  void release_oldest();

  Communicator* group_;
  int from_;
  int to_;
  Message message_;
  int under_way_;
  std::deque<Sent> sent_;
};

struct PipelineResult {
  at::Tensor loss;  // of all micro-batches; 0 without the head
  // Held when the first backward pass begins, on metered devices.
  std::int64_t bytes_after_forward = 0;
};

using PassDone = std::function<void(bool backward)>;

class Pipeline {
 public:
  // `chunks` of this stage, by number; they and `groups` must outlive it.
  Pipeline(const sim::PipelineShape& shape, const RankGroups& groups,
           std::vector<ModelChunk*> chunks, const Message& message);

  // One micro-batch after the other, forward and back; `pass_done`, where given, is called after
  // each pass.
  PipelineResult run(const std::vector<MicroBatch>& batches, const PassDone& pass_done = {});

 private:
  void forward(const sim::PipelinePass& pass, const MicroBatch& batch, at::Tensor& loss);
  void backward(const sim::PipelinePass& pass, const MicroBatch& batch);
  bool first(int chunk) const { return stage_ == 0 && chunk == 0; }
  bool last(int chunk) const {
    return stage_ == shape_.stages - 1 && chunk == shape_.virtual_stages - 1;
  }
  ChunkTape& tape(const sim::PipelinePass& pass);

  sim::PipelineShape shape_;
  int stage_;
  std::vector<ModelChunk*> chunks_;
  at::Device device_;
  StageLink forward_link_, backward_link_;
  std::vector<ChunkTape> tapes_;
};

}  // namespace llmsim::runtime
