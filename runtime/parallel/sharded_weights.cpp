#include "runtime/parallel/sharded_weights.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/flat_optimizer.h"
#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

AdamWSlice ShardedWeights::adopt(ParameterUnit& unit) {
  const at::Tensor shard = own_shard(std::exchange(unit.weights, {}), shards_).clone();
  AdamWSlice slice = with_states(shard, on_host_);
  if (slice.on_host || formats_.has_master()) slice.weight = shard.to(formats_.weights);
  held_.push_back(
      {.unit = &unit, .shard = slice.weight.defined() ? slice.weight : slice.master, .sent = {}, .whole = {}, .gather = nullptr});
  return slice;
}

ShardedWeights::Held& ShardedWeights::held(const ParameterUnit& unit) {
  return *std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return one.unit == &unit; });
}

void ShardedWeights::start(Held& held) const {
  if (held.whole.defined() || held.unit->weights.defined()) return;
  held.sent = formats_.casts_weights() ? held.shard.to(formats_.compute) : held.shard;
  held.whole = at::empty({held.unit->numel()}, held.sent.options());
  if (shards_ != nullptr) {
    held.gather = shards_->start_all_gather(held.whole, held.sent);
  } else {
    held.whole.copy_(held.sent);
  }
}

void ShardedWeights::lend(ParameterUnit& unit) {
  Held& own = held(unit);
  start(own);
  if (own.gather) own.gather->wait();
  own.gather.reset(), own.sent.reset();
  if (own.whole.defined()) unit.weights = std::exchange(own.whole, {});
  const auto here = static_cast<std::size_t>(std::find(pass_.begin(), pass_.end(), &unit) - pass_.begin());
  for (std::size_t next = here + 1; next < pass_.size() && next <= here + prefetch_; ++next) start(held(*pass_[next]));
}

}  // namespace llmsim::runtime
