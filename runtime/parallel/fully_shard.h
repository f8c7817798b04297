// ZeRO stage 3, FSDP: every rank holds a shard of weights, gradients and states.  Hsdp: the same inside each of several replicas.
#pragma once

#include <vector>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/sharded_gradients.h"
#include "runtime/parallel/sharded_weights.h"

namespace llmsim::runtime {

class FullyShard : public DataParallel {
 public:
  // Groups of one rank are none.  Gradients are reduced after every micro-batch whatever the habits say.
  FullyShard(NumberFormats formats, ExchangeHabits habits, Communicator* shards, Communicator* replicas = nullptr)
      : shards_(shards),
        frees_after_forward_(habits.regathers_in_backward),
        weights_(formats, habits.states_on_host, shards, habits.prefetch_units),
        gradients_(formats.gradients, shards, replicas, true) {}

  void adopt(ParameterUnit& unit) override;
  void begin_pass(const std::vector<ParameterUnit*>& units) override;
  void before_forward(ParameterUnit& unit) override { weights_.lend(unit); }
  void after_forward(ParameterUnit& unit) override;
  void before_backward(ParameterUnit& unit) override;
  void after_backward(ParameterUnit& unit, bool last) override;
  void lend_gradients(ParameterUnit& unit) override { gradients_.lend(unit); }
  void finish_gradients() override { gradients_.finish(); }
  std::vector<GradientSlice> gradient_slices() const override { return optimizer_.gradients(); }
  Communicator* slice_group() const override { return shards_; }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override;

 private:
  Communicator* shards_;
  bool frees_after_forward_;
  ShardedWeights weights_;
  ShardedGradients gradients_;
  FlatOptimizer optimizer_;
};

}  // namespace llmsim::runtime
