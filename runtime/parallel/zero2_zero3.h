// ZeRO stages 2 and 3: every rank holds a shard of gradients and states, and all weights (stage 2) or a shard of them (stage 3,
// FSDP).  Hsdp: stage 3 inside each of several replicas.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/sharded_gradients.h"
#include "runtime/parallel/unit_weights.h"

namespace llmsim::runtime {

class Zero2Zero3 : public DataParallel {
 public:
  // `shards` none: one rank.
  Zero2Zero3(Communicator* shards, std::unique_ptr<UnitWeights> weights, ShardedGradients gradients)
      : shards_(shards), weights_(std::move(weights)), gradients_(std::move(gradients)) {}

  void adopt(ParameterUnit& unit) override;
  void begin_pass(const std::vector<ParameterUnit*>& units) override;
  void before_forward(ParameterUnit& unit) override { weights_->lend(unit); }
  void after_forward(ParameterUnit& unit) override { weights_->after_forward(unit); }
  void before_backward(ParameterUnit& unit) override;
  void after_backward(ParameterUnit& unit, bool last) override;
  void lend_gradients(ParameterUnit& unit) override { gradients_.lend(unit); }
  void finish_gradients() override { gradients_.finish(); }
  std::vector<GradientSlice> gradient_slices() const override { return optimizer_.gradients(); }
  Communicator* slice_group() const override { return shards_; }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override;

 private:
  Communicator* shards_;
  std::unique_ptr<UnitWeights> weights_;
  ShardedGradients gradients_;
  FlatOptimizer optimizer_;
};

}  // namespace llmsim::runtime
