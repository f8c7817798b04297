// The piece of a flat tensor that one rank of a group owns when the group divides it evenly.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

// numel / size() elements, by rank: where they begin, and a view of them; all of them where there is no group.
std::int64_t own_shard_begin(std::int64_t numel, const Communicator* group);
at::Tensor own_shard(const at::Tensor& flat, const Communicator* group);

// The first element of the shard of a unit's flat tensors.
std::int64_t shard_begin(const ParameterUnit& unit, const Communicator* group);

// Everything else becomes zero.
void clear_others_shards(const at::Tensor& flat, const Communicator* group);

}  // namespace llmsim::runtime
