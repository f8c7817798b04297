// The piece of a flat tensor that one rank of a group owns when the group divides it evenly, and
// the optimizer step of such pieces.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/adamw.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"

namespace llmsim::runtime {

// numel / size() elements, by rank: where they begin, and a view of them; all of them where there
// is no group.
std::int64_t own_shard_begin(std::int64_t numel, const Communicator* group);
at::Tensor own_shard(const at::Tensor& flat, const Communicator* group);

// Everything else becomes zero.
void clear_others_shards(const at::Tensor& flat, const Communicator* group);

// The slice of these fp32 weights, with states of nothing; on the host all of them are copies.
AdamWSlice with_states(const at::Tensor& master, bool on_host);

// The slices that this rank owns.
class FlatOptimizer {
 public:
  // `begin`: of the slice in its unit.
  void add(const ParameterUnit& unit, std::int64_t begin, AdamWSlice slice);

  std::vector<GradientSlice> gradients() const;
  // Updates with gradients times `scale` and clears them.
  void step(std::int64_t step, const AdamWOptions& options, double scale) const;

 private:
  struct Place {
    const ParameterUnit* unit = nullptr;
    std::int64_t begin = 0;
  };
  std::vector<Place> places_;
  std::vector<AdamWSlice> slices_;
};

}  // namespace llmsim::runtime
