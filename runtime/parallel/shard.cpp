#include "runtime/parallel/shard.h"

#include <utility>

#include <ATen/ATen.h>

#include "runtime/library/memory_meter.h"

namespace llmsim::runtime {

std::int64_t own_shard_begin(std::int64_t numel, const Communicator* group) {
  return group == nullptr ? 0 : numel / group->size() * group->rank();
}

at::Tensor own_shard(const at::Tensor& flat, const Communicator* group) {
  if (group == nullptr) return flat;
  return flat.narrow(0, own_shard_begin(flat.numel(), group), flat.numel() / group->size());
}

void clear_others_shards(const at::Tensor& flat, const Communicator* group) {
  if (group == nullptr) return;
  const std::int64_t size = flat.numel() / group->size(),
                     begin = own_shard_begin(flat.numel(), group);
  flat.narrow(0, 0, begin).zero_();
  flat.narrow(0, begin + size, flat.numel() - begin - size).zero_();
}

AdamWSlice with_states(const at::Tensor& master, bool on_host) {
  AdamWSlice slice;
  slice.on_host = on_host;
  slice.master = on_host ? copied_to_host(master) : master;
  const auto states = [&] { return at::zeros({master.numel()}, slice.master.options()); };
  if (on_host) {
    const OnHost placed;
    slice.first_moment = states(), slice.second_moment = states();
  } else {
    slice.first_moment = states(), slice.second_moment = states();
  }
  return slice;
}

void FlatOptimizer::add(const ParameterUnit& unit, std::int64_t begin, AdamWSlice slice) {
  places_.push_back({.unit = &unit, .begin = begin});
  slices_.push_back(std::move(slice));
}

std::vector<GradientSlice> FlatOptimizer::gradients() const {
  std::vector<GradientSlice> gradients;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    gradients.push_back(
        {.unit = places_[i].unit, .begin = places_[i].begin, .gradient = slices_[i].gradient});
  }
  return gradients;
}

void FlatOptimizer::step(std::int64_t step, const AdamWOptions& options, double scale) const {
  if (scale < 1.0) {
    for (const AdamWSlice& slice : slices_) slice.gradient.mul_(scale);
  }
  adamw_steps(slices_, step, options);
  for (const AdamWSlice& slice : slices_) slice.gradient.zero_();
}

}  // namespace llmsim::runtime
