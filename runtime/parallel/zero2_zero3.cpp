#include "runtime/parallel/zero2_zero3.h"

#include <utility>

#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

void Zero2Zero3::adopt(ParameterUnit& unit) {
  AdamWSlice slice = weights_->adopt(unit);
  slice.gradient = gradients_.adopt(unit, slice.on_device());
  optimizer_.add(unit, own_shard_begin(unit.numel(), shards_), std::move(slice));
}

void Zero2Zero3::begin_pass(const std::vector<ParameterUnit*>& units) {
  gradients_.finish();
  weights_->begin_pass(units);
}

void Zero2Zero3::before_backward(ParameterUnit& unit) {
  weights_->lend(unit);
  gradients_.lend(unit);
}

void Zero2Zero3::after_backward(ParameterUnit& unit, bool last) {
  weights_->take_back(unit);
  gradients_.send(unit, last);
}

void Zero2Zero3::update(std::int64_t step, const AdamWOptions& options, double scale) {
  optimizer_.step(step, options, scale);
  weights_->updated();
  gradients_.begin_step();
}

}  // namespace llmsim::runtime
