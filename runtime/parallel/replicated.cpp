#include "runtime/parallel/replicated.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

namespace llmsim::runtime {

void Replicated::adopt(ParameterUnit& unit) { held_.push_back({.unit = &unit, .slice = weights_.adopt(unit)}); }

void Replicated::complete() {
  std::int64_t size = 0;
  for (auto held = held_.rbegin(); held != held_.rend(); ++held) {
    held->begin = size;
    size += held->unit->numel();
  }
  gradients_ = at::zeros({size}, held_.front().slice.on_device().options().dtype(formats_.gradients));
  for (Held& held : held_) {
    held.unit->gradients = held.slice.gradient = gradients_.narrow(0, held.begin, held.unit->numel());
    optimizer_.add(*held.unit, 0, held.slice);
  }
  cut_buckets();
}

void Replicated::cut_buckets() {
  if (group_ == nullptr) return;
  if (habits_.bucket == 0) {
    for (const Held& held : held_) buckets_.push_back({.begin = held.begin, .size = held.unit->numel(), .sum = nullptr});
    return;
  }
  const std::int64_t most = std::max<std::int64_t>(1, habits_.bucket / gradients_.element_size());
  for (std::int64_t begin = 0; begin < gradients_.numel(); begin += most) {
    buckets_.push_back({.begin = begin, .size = std::min(most, gradients_.numel() - begin), .sum = nullptr});
  }
}

void Replicated::begin_pass(const std::vector<ParameterUnit*>&) {
  for (Bucket& bucket : buckets_) {
    if (!bucket.sum || !bucket.goes_on) continue;
    bucket.sum->wait();
    bucket.sum.reset();
    if (group_->rank() != 0) gradients_.narrow(0, bucket.begin, bucket.size).zero_();
  }
}

void Replicated::after_backward(ParameterUnit& unit, bool last) {
  weights_.take_back(unit);
  if (!last && !habits_.every_micro_batch) return;
  const Held& held = *std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return one.unit == &unit; });
  const std::int64_t end = held.begin + unit.numel();
  for (Bucket& bucket : buckets_) {
    const std::int64_t shared = std::min(end, bucket.begin + bucket.size) - std::max(held.begin, bucket.begin);
    if (shared <= 0) continue;
    bucket.done += shared;
    if (bucket.done < bucket.size) continue;
    bucket.done = 0;
    bucket.goes_on = !last;
    bucket.sum = group_->start_all_reduce(gradients_.narrow(0, bucket.begin, bucket.size));
  }
}

void Replicated::finish_gradients() {
  for (Bucket& bucket : buckets_) {
    if (bucket.sum) bucket.sum->wait();
    bucket.sum.reset();
  }
}

void Replicated::update(std::int64_t step, const AdamWOptions& options, double scale) { optimizer_.step(step, options, scale); }

}  // namespace llmsim::runtime
