// The optimizer step of the slices that this rank owns.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/parallel/data_parallel.h"

namespace llmsim::runtime {

// The slice of these fp32 weights, with states of nothing; on the host all of them are copies.
AdamWSlice with_states(const at::Tensor& master, bool on_host);

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
