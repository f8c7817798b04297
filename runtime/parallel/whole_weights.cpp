#include "runtime/parallel/whole_weights.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

AdamWSlice WholeWeights::adopt(ParameterUnit& unit) {
  const at::Tensor full = std::move(unit.weights);
  Held held{.unit = &unit, .weights = formats_.has_master() ? full.to(formats_.weights) : full, .gather = nullptr};
  AdamWSlice slice = with_states(own_shard(full, shards_), on_host_);
  if (slice.on_host || formats_.has_master()) slice.weight = own_shard(held.weights, shards_);
  if (!slice.on_host && formats_.has_master() && shards_ != nullptr) slice.master = slice.master.clone();
  if (!formats_.casts_weights()) unit.weights = held.weights;
  held_.push_back(std::move(held));
  return slice;
}

void WholeWeights::lend(ParameterUnit& unit) {
  Held& held = *std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return one.unit == &unit; });
  if (held.gather) held.gather->wait();
  held.gather.reset();
  if (formats_.casts_weights()) unit.weights = held.weights.to(formats_.compute);
}

void WholeWeights::take_back(ParameterUnit& unit) {
  if (formats_.casts_weights()) unit.weights.reset();
}

void WholeWeights::updated() {
  if (shards_ == nullptr) return;
  for (Held& held : held_) held.gather = shards_->start_all_gather(held.weights, own_shard(held.weights, shards_));
}

}  // namespace llmsim::runtime
