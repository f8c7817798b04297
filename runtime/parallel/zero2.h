// ZeRO stage 2: every rank holds all weights, and a shard of the gradients and states.
#pragma once

#include <vector>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/sharded_gradients.h"
#include "runtime/parallel/whole_weights.h"

namespace llmsim::runtime {

class Zero2 : public DataParallel {
 public:
  // `shards` none: one rank.
  Zero2(NumberFormats formats, ExchangeHabits habits, Communicator* shards)
      : shards_(shards),
        weights_(formats, habits.states_on_host, shards),
        gradients_(formats.gradients, shards, nullptr, habits.every_micro_batch) {}

  void adopt(ParameterUnit& unit) override;
  void begin_pass(const std::vector<ParameterUnit*>&) override { gradients_.finish(); }
  void before_forward(ParameterUnit& unit) override { weights_.lend(unit); }
  void after_forward(ParameterUnit& unit) override { weights_.take_back(unit); }
  void before_backward(ParameterUnit& unit) override;
  void after_backward(ParameterUnit& unit, bool last) override;
  void lend_gradients(ParameterUnit& unit) override { gradients_.lend(unit); }
  void finish_gradients() override { gradients_.finish(); }
  std::vector<GradientSlice> gradient_slices() const override { return optimizer_.gradients(); }
  Communicator* slice_group() const override { return shards_; }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override;

 private:
  Communicator* shards_;
  WholeWeights weights_;
  ShardedGradients gradients_;
  FlatOptimizer optimizer_;
};

}  // namespace llmsim::runtime
