#include "runtime/parallel/zero2.h"

#include <utility>

#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

void Zero2::adopt(ParameterUnit& unit) {
  AdamWSlice slice = weights_.adopt(unit);
  slice.gradient = gradients_.adopt(unit, slice.on_device());
  optimizer_.add(unit, own_shard_begin(unit.numel(), shards_), std::move(slice));
}

void Zero2::before_backward(ParameterUnit& unit) {
  weights_.lend(unit);
  gradients_.lend(unit);
}

void Zero2::after_backward(ParameterUnit& unit, bool last) {
  weights_.take_back(unit);
  gradients_.send(unit, last);
}

void Zero2::update(std::int64_t step, const AdamWOptions& options, double scale) {
  optimizer_.step(step, options, scale);
  weights_.start_gather();
  gradients_.begin_step();
}

}  // namespace llmsim::runtime
