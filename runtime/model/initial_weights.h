// The weights a model begins with: the same values however it is divided.
//
// Each whole parameter is drawn from a generator seeded by its name, and a rank takes its shard;
// matrices are normal with standard deviation 0.02, norms one, biases zero.
#pragma once

#include <cstdint>

#include "runtime/model/block.h"
#include "runtime/model/parameter_unit.h"

namespace llmsim::runtime {

// Sets unit.weights: flat, fp32, on `device`; zeros on the meta device, which has no values.
void set_initial_weights(ParameterUnit& unit, const BlockContext& context, std::uint64_t seed,
                         c10::Device device);

// Of a whole parameter, or its gradient, what the rank of `context` has of it.
at::Tensor own_part(const at::Tensor& whole, const ParameterShape& parameter,
                    const BlockContext& context);

}  // namespace llmsim::runtime
