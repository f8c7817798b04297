// Trains one rank's share of a model, step by step, as a strategy lays it out.
//
// A step is num_microbatches forward and backward passes in the order of the pipeline's schedule,
// the sum of gradients over the data ranks, what model-parallel ranks still add to them, and the
// optimizer.  Losses and gradients are means over all tokens of the global batch, so every layout
// of one model and batch gives the same values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/block.h"
#include "runtime/model/captured_passes.h"
#include "runtime/model/model_chunk.h"
#include "runtime/model/token_stream.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/model_parallel_gradients.h"
#include "runtime/parallel/pipeline.h"
#include "runtime/parallel/rank_groups.h"
#include "sim/base/quantity.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

struct TrainingSetup {
  sim::Transformer model;
  sim::Strategy strategy;
  bool autocast = false;  // bf16: fp32 weights, cast when a unit computes
  c10::Device device = c10::kCPU;
  // Tokens go to experts evenly; always so on the meta device.
  bool balanced_experts = false;
  ExchangeBehaviour exchange;
  AdamWOptions optimizer;
  // Where the strategy has flash attention.
  AttentionKernels attention_kernels = AttentionKernels::Blockwise;
  std::uint64_t seed = 1;
};

struct StepResult {
  // This rank's share of the global batch's; on ranks without the head, and on the meta device, 0.
  double loss = 0.0;
  double gradient_norm = 0.0;
  // Forward and backward passes: none of captured passes, which are one.
  std::optional<sim::Seconds> forward, backward;
  sim::Seconds optimizer{}, total{};
  // Held when the first backward pass begins, on metered devices.
  std::int64_t bytes_after_forward = 0;
};

// Looks on while a step is executed; what is empty is not called.
struct StepObserver {
  PassDone pass_done;  // between passes
  // Over all ranks, before the update.
  std::function<void(const std::vector<GradientSlice>&)> gradients_summed;
};

class Trainer {
 public:
  // `groups` must outlive the trainer.  Throws Error for strategies that the runtime does not
  // execute, naming the field.
  Trainer(const TrainingSetup& setup, const RankGroups& groups);

  // The micro-batches of this rank for the next step.
  std::vector<MicroBatch> next_batches();
  StepResult step(const std::vector<MicroBatch>& batches, const StepObserver& observer = {});

  const std::vector<ParameterUnit*>& units() const { return units_; }

 private:
  void make_chunks();
  PipelineResult passes(const std::vector<MicroBatch>& batches, const PassDone& pass_done);

  TrainingSetup setup_;
  const RankGroups& groups_;
  BlockContext context_;
  TokenStream stream_;
  std::unique_ptr<DataParallel> data_;
  ModelParallelGradients gradients_;
  WantedTokens wanted_;
  std::vector<std::unique_ptr<ModelChunk>> chunks_;  // of this stage
  std::vector<ParameterUnit*> units_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<CapturedPasses> graph_;  // under strategy.cuda_graph, from the first step on
  std::int64_t steps_ = 0;
};

}  // namespace llmsim::runtime
