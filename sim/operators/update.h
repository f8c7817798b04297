// The optimizer step as operators on one rank.
//
// An update streams, for each parameter it owns, the gradient, the fp32 master weight, the states, and writes the low-precision
// copy:
//
//   bytes per parameter = gradient + 2 master + 2 states * state_bytes + weight
//
// The gradient norm reads every gradient once more; clipping scales it (read and write).
#pragma once

#include "sim/operators/operator.h"
#include "sim/strategy/stack.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Values of state an optimizer keeps per parameter: AdamW 2, Lion 1, SGD 0; Adafactor's row and column sums are neglected.
double state_values(OptimizerKind optimizer);

// Bytes of optimizer state per parameter: state_values times the stack's state_bytes (1 byte for the 8-bit Adam).
double state_bytes_per_parameter(OptimizerKind optimizer, const ParameterStorage& storage);

// Update of `parameters` values held by this rank, with gradient norm and clipping.  `gradients` is the number of gradient values
// the norm reads.
OperatorList lower_update(OptimizerKind optimizer, const ParameterStorage& storage, double parameters, double gradients);

}  // namespace llmsim::sim
