#include "runtime/parallel/fully_shard.h"

#include <utility>

#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

void FullyShard::adopt(ParameterUnit& unit) {
  AdamWSlice slice = weights_.adopt(unit);
  slice.gradient = gradients_.adopt(unit, slice.on_device());
  optimizer_.add(unit, own_shard_begin(unit.numel(), shards_), std::move(slice));
}

void FullyShard::begin_pass(const std::vector<ParameterUnit*>& units) {
  gradients_.finish();
  weights_.begin_pass(units);
}

void FullyShard::after_forward(ParameterUnit& unit) {
  if (frees_after_forward_) ShardedWeights::take_back(unit);
}

void FullyShard::before_backward(ParameterUnit& unit) {
  weights_.lend(unit);
  gradients_.lend(unit);
}

void FullyShard::after_backward(ParameterUnit& unit, bool last) {
  ShardedWeights::take_back(unit);
  gradients_.send(unit, last);
}

void FullyShard::update(std::int64_t step, const AdamWOptions& options, double scale) {
  optimizer_.step(step, options, scale);
  gradients_.begin_step();
}

}  // namespace llmsim::runtime
