// Data parallelism where routed experts are divided over expert ranks: their units are shared by the ranks that have the same
// experts, all others by all data ranks, each in the same form.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/parallel/data_parallel.h"

namespace llmsim::runtime {

class ExpertDataParallel : public DataParallel {
 public:
  // Two of the same form: over all data ranks, and over those with the same experts.
  ExpertDataParallel(std::unique_ptr<DataParallel> shared, std::unique_ptr<DataParallel> experts)
      : shared_(std::move(shared)), experts_(std::move(experts)) {}

  void adopt(ParameterUnit& unit) override;
  void complete() override;
  void begin_pass(const std::vector<ParameterUnit*>& units) override;
  void before_forward(ParameterUnit& unit) override { of(unit).before_forward(unit); }
  void after_forward(ParameterUnit& unit) override { of(unit).after_forward(unit); }
  void before_backward(ParameterUnit& unit) override { of(unit).before_backward(unit); }
  void after_backward(ParameterUnit& unit, bool last) override { of(unit).after_backward(unit, last); }
  void lend_gradients(ParameterUnit& unit) override { of(unit).lend_gradients(unit); }
  void finish_gradients() override;
  std::vector<GradientSlice> gradient_slices() const override;
  Communicator* slice_group() const override { return shared_->slice_group(); }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override;

 private:
  DataParallel& of(const ParameterUnit& unit) { return unit.shapes().front().of_experts ? *experts_ : *shared_; }

  std::unique_ptr<DataParallel> shared_, experts_;
  bool has_experts_ = false;  // a pipeline stage may have none
};

}  // namespace llmsim::runtime
