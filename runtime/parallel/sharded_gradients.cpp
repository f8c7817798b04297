#include "runtime/parallel/sharded_gradients.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

at::Tensor ShardedGradients::adopt(ParameterUnit& unit, const at::Tensor& like) {
  const std::int64_t size = shards_ == nullptr ? unit.numel() : unit.numel() / shards_->size();
  held_.push_back({.unit = &unit, .shard = at::zeros({size}, like.options().dtype(type_))});
  return held_.back().shard;
}

ShardedGradients::Held& ShardedGradients::held(const ParameterUnit& unit) {
  return *std::find_if(held_.begin(), held_.end(),
                       [&](const Held& one) { return one.unit == &unit; });
}

void ShardedGradients::provide(ParameterUnit& unit) {
  if (unit.gradients.defined()) return;
  const Held& own = held(unit);
  unit.gradients = at::zeros({unit.numel()}, own.shard.options());
  if (own.holds_sum && carries_sums()) own_shard(unit.gradients, shards_).copy_(own.shard);
}

void ShardedGradients::send(ParameterUnit& unit, bool last) {
  if (!last && !every_micro_batch_) return;
  Held& own = held(unit);
  advance();
  scattered_whole_ = std::exchange(unit.gradients, {});
  scattered_shard_ = own.shard;
  own.holds_sum = true;
  if (shards_ != nullptr) {
    scatter_ = shards_->start_reduce_scatter(own.shard, scattered_whole_);
  } else {
    own.shard.copy_(scattered_whole_);
  }
}

void ShardedGradients::advance() {
  if (replicate_) replicate_->wait();
  replicate_.reset();
  if (!scattered_whole_.defined()) return;
  if (scatter_) scatter_->wait();
  scatter_.reset(), scattered_whole_.reset();
  if (replicas_ != nullptr) replicate_ = replicas_->start_all_reduce(scattered_shard_);
  scattered_shard_.reset();
}

void ShardedGradients::finish() {
  advance();
  advance();
}

void ShardedGradients::begin_step() {
  for (Held& one : held_) one.holds_sum = false;
}

}  // namespace llmsim::runtime
