#include "runtime/parallel/expert_data_parallel.h"

#include <algorithm>
#include <iterator>

namespace llmsim::runtime {

void ExpertDataParallel::adopt(ParameterUnit& unit) {
  has_experts_ = has_experts_ || unit.shapes().front().of_experts;
  of(unit).adopt(unit);
}

void ExpertDataParallel::complete() {
  shared_->complete();
  if (has_experts_) experts_->complete();
}

void ExpertDataParallel::begin_pass(const std::vector<ParameterUnit*>& units) {
  std::vector<ParameterUnit*> shared, experts;
  std::partition_copy(units.begin(), units.end(), std::back_inserter(experts), std::back_inserter(shared),
                      [](const ParameterUnit* unit) { return unit->shapes().front().of_experts; });
  shared_->begin_pass(shared);
  if (has_experts_) experts_->begin_pass(experts);
}

void ExpertDataParallel::finish_gradients() {
  shared_->finish_gradients();
  if (has_experts_) experts_->finish_gradients();
}

std::vector<GradientSlice> ExpertDataParallel::gradient_slices() const {
  std::vector<GradientSlice> all = shared_->gradient_slices();
  if (!has_experts_) return all;
  for (const GradientSlice& slice : experts_->gradient_slices()) all.push_back(slice);
  return all;
}

void ExpertDataParallel::update(std::int64_t step, const AdamWOptions& options, double scale) {
  shared_->update(step, options, scale);
  if (has_experts_) experts_->update(step, options, scale);
}

}  // namespace llmsim::runtime
