// In which formats a training step computes, stores weights and adds up gradients.
//
//   fp32            everything in fp32
//   bf16            weights and gradients in bf16, fp32 master weights beside them
//   fp8             the same, and the linear layers of blocks multiply in 8 bits (kernels/low_precision_linear.h)
//   bf16, autocast  weights and gradients in fp32; a bf16 copy of a unit's weights is made each time the unit computes
#pragma once

#include <c10/core/ScalarType.h>

#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

struct NumberFormats {
  c10::ScalarType compute = c10::kFloat;
  c10::ScalarType weights = c10::kFloat;
  c10::ScalarType gradients = c10::kFloat;

  bool has_master() const { return weights != c10::kFloat; }
  bool casts_weights() const { return weights != compute; }
};

// Throws Error for recipes that the runtime does not execute.
NumberFormats number_formats(sim::Precision precision, bool autocast);

}  // namespace llmsim::runtime
