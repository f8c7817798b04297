#include "runtime/parallel/zero1.h"

#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/shard.h"

namespace llmsim::runtime {

void Zero1::adopt(ParameterUnit& unit) {
  AdamWSlice slice = weights_.adopt(unit);
  unit.gradients = at::zeros({unit.numel()}, slice.on_device().options().dtype(formats_.gradients));
  slice.gradient = own_shard(unit.gradients, shards_);
  gradients_.push_back(unit.gradients);
  optimizer_.add(unit, own_shard_begin(unit.numel(), shards_), std::move(slice));
}

void Zero1::begin_pass(const std::vector<ParameterUnit*>&) {
  for (const Reduction& reduction : under_way_) {
    reduction.sum->wait();
    clear_others_shards(reduction.gradients, shards_);
  }
  under_way_.clear();
}

void Zero1::after_backward(ParameterUnit& unit, bool last) {
  weights_.take_back(unit);
  if (shards_ == nullptr || (!last && !habits_.every_micro_batch)) return;
  under_way_.push_back(
      {.gradients = unit.gradients, .sum = shards_->start_reduce_scatter(own_shard(unit.gradients, shards_), unit.gradients)});
}

void Zero1::finish_gradients() {
  for (const Reduction& reduction : under_way_) reduction.sum->wait();
  under_way_.clear();
}

void Zero1::update(std::int64_t step, const AdamWOptions& options, double scale) {
  optimizer_.step(step, options, scale);
  weights_.updated();
  for (const at::Tensor& gradients : gradients_) clear_others_shards(gradients, shards_);
}

}  // namespace llmsim::runtime
