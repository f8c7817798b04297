#include "runtime/parallel/shard.h"

#include <ATen/ATen.h>

namespace llmsim::runtime {

std::int64_t own_shard_begin(std::int64_t numel, const Communicator* group) {
  return group == nullptr ? 0 : numel / group->size() * group->rank();
}

at::Tensor own_shard(const at::Tensor& flat, const Communicator* group) {
  if (group == nullptr) return flat;
  return flat.narrow(0, own_shard_begin(flat.numel(), group), flat.numel() / group->size());
}

std::int64_t shard_begin(const ParameterUnit& unit, const Communicator* group) {
  return group == nullptr ? 0 : group->rank() * (unit.numel() / group->size());
}

void clear_others_shards(const at::Tensor& flat, const Communicator* group) {
  if (group == nullptr) return;
  const std::int64_t size = flat.numel() / group->size(), begin = own_shard_begin(flat.numel(), group);
  flat.narrow(0, 0, begin).zero_();
  flat.narrow(0, begin + size, flat.numel() - begin - size).zero_();
}

}  // namespace llmsim::runtime
