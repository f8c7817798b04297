// Slices of units' gradients, parameter by parameter.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/parallel/data_parallel.h"

namespace llmsim::runtime {

// Elements [begin, begin + gradient.numel()) of a parameter, whose tensor is taken flat.
struct GradientPiece {
  const ParameterShape* parameter = nullptr;  // of a unit
  std::int64_t begin = 0;
  at::Tensor gradient;  // a view
};

// What the slices have of each parameter, without padding; nothing for parameters that they do not touch.
std::vector<GradientPiece> gradient_pieces(const std::vector<GradientSlice>& slices);

}  // namespace llmsim::runtime
