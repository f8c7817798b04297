// Every rank holds everything: one process alone, or DDP with one all-reduce for each bucket of gradients.
//
// The gradients of all units are one buffer in the order in which backward passes complete them (the last unit first), and a
// bucket is a piece of it: nothing is copied.  A bucket is sent when the last unit that has a part in it is done.
#pragma once

#include <memory>
#include <vector>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/whole_weights.h"

namespace llmsim::runtime {

class Replicated : public DataParallel {
 public:
  // `group` none: one rank.
  Replicated(NumberFormats formats, ExchangeHabits habits, Communicator* group)
      : formats_(formats), habits_(habits), group_(group), weights_(formats, habits.states_on_host, nullptr) {}

  void adopt(ParameterUnit& unit) override;
  void complete() override;
  void begin_pass(const std::vector<ParameterUnit*>& units) override;
  void before_forward(ParameterUnit& unit) override { weights_.lend(unit); }
  void after_forward(ParameterUnit& unit) override { weights_.take_back(unit); }
  void before_backward(ParameterUnit& unit) override { weights_.lend(unit); }
  void after_backward(ParameterUnit& unit, bool last) override;
  void lend_gradients(ParameterUnit&) override {}
  void finish_gradients() override;
  std::vector<GradientSlice> gradient_slices() const override { return optimizer_.gradients(); }
  Communicator* slice_group() const override { return nullptr; }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override;

 private:
  struct Held {
    ParameterUnit* unit = nullptr;
    AdamWSlice slice;
    std::int64_t begin = 0;  // in the buffer
  };
  struct Bucket {
    std::int64_t begin = 0, size = 0;
    std::int64_t done = 0;  // elements whose backward pass has ended
    bool goes_on = false;   // later micro-batches add to the sum
    std::unique_ptr<PendingCollective> sum;
  };
  void cut_buckets();

  NumberFormats formats_;
  ExchangeHabits habits_;
  Communicator* group_;
  WholeWeights weights_;
  FlatOptimizer optimizer_;
  std::vector<Held> held_;
  at::Tensor gradients_;
  std::vector<Bucket> buckets_;
};

}  // namespace llmsim::runtime
