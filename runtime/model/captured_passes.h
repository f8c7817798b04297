// The passes of a step as one graph: captured in the first step, then replayed with a single call.
//
// The graph reads its tokens from tensors of its own and adds to the gradients where they
// are; the optimizer stays outside.  Forward and backward are not distinguished in a replay.
#pragma once

#include <functional>
#include <vector>

#include "runtime/library/cuda_graph.h"
#include "runtime/model/token_stream.h"
#include "runtime/parallel/pipeline.h"

namespace llmsim::runtime {

class CapturedPasses {
 public:
  using Run = std::function<PipelineResult(const std::vector<MicroBatch>&)>;

  // Runs them once, as the first step, and captures them.  Throws Error where the device cannot.
  CapturedPasses(const Run& run, const std::vector<MicroBatch>& batches);

  const PipelineResult& first() const { return results_.front(); }
  PipelineResult replay(const std::vector<MicroBatch>& batches);

 private:
  std::vector<MicroBatch> batches_;
  std::vector<PipelineResult> results_;  // of the first step, and of every replay
  CapturedGraph graph_;
};

}  // namespace llmsim::runtime
