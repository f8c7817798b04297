// ZeRO stage 1: every rank holds all weights and gradients and updates a shard of them.
#pragma once

#include <memory>
#include <vector>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/whole_weights.h"

namespace llmsim::runtime {

class Zero1 : public DataParallel {
 public:
  // `shards` none: one rank.
  Zero1(NumberFormats formats, ExchangeHabits habits, Communicator* shards)
      : formats_(formats), habits_(habits), shards_(shards), weights_(formats, habits.states_on_host, shards) {}

  void adopt(ParameterUnit& unit) override;
  void begin_pass(const std::vector<ParameterUnit*>& units) override;
  void before_forward(ParameterUnit& unit) override { weights_.lend(unit); }
  void after_forward(ParameterUnit& unit) override { weights_.take_back(unit); }
  void before_backward(ParameterUnit& unit) override { weights_.lend(unit); }
  void after_backward(ParameterUnit& unit, bool last) override;
  void lend_gradients(ParameterUnit&) override {}
  void finish_gradients() override;
  std::vector<GradientSlice> gradient_slices() const override { return optimizer_.gradients(); }
  Communicator* slice_group() const override { return shards_; }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override;

 private:
  // Into this rank's own shard of the whole gradients.
  struct Reduction {
    at::Tensor gradients;
    std::unique_ptr<PendingCollective> sum;
  };

  NumberFormats formats_;
  ExchangeHabits habits_;
  Communicator* shards_;
  WholeWeights weights_;
  FlatOptimizer optimizer_;
  std::vector<at::Tensor> gradients_;
  std::vector<Reduction> under_way_;
};

}  // namespace llmsim::runtime
