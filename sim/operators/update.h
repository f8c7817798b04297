// The optimizer step as operators on one rank.
//
// A fused update is two kernels.  For each parameter it reads the gradient, reads and writes the
// master weight and the states, and writes the 16-bit copy of the weight, where there is one:
//
//   bytes per parameter = gradient + 2 master + 2 states * state_bytes + weight
//
// LAMB writes its step to memory and reads it again with the weight, once both norms are known:
// 3 fp32 values more.
//
// An unfused update (torch's foreach and single-tensor ones) makes one pass over all parameters for
// every arithmetic operation.  It reads or writes V values of the size of a master weight for each
// parameter, in V / 2 kernels, and the 16-bit copy:
//
//   optimizer       V   values of each operation
//   AdamW          20   decay 2, lerp 3, scale 2, addcmul 3, sqrt 2, divide 2, add 2, addcdiv 4
//   Adam           18   AdamW without the decay
//   LAMB           25   AdamW's, two norms 2, the scaled step added to the weight 3
//   Lion           17   decay 2, interpolate 5, sign 2, add 3, momentum 5
//   SGD             3   add 3
//   momentum, Muon  8   scale 2, add 3, add to the weight 3
//   Adafactor      15   square 2, row and column means 2, outer product of the means 2, scale 3,
//                       clip 3, add 3; no framework fuses it
//
// The gradient norm reads every gradient once, in two kernels; clipping scales each gradient, a
// read and a write.
//
// The 8-bit Adam looks its states up in a table of 256 values, takes the maximum of each block and
// searches the table for the new ones: its kernel computes longer than it streams.  610 operations
// of the fp32 vector units per parameter: 47 ms for 1e9 of them on V100 (738 at 15.7 TFLOP/s), and
// a step of 3.2e9 of them on A100 that is 55 ms longer than with a fused AdamW in 16 bits (504 at
// 19.5 TFLOP/s); standard error 19 %.  Sources: Dettmers et al., "8-bit Optimizers via Block-wise
// Quantization" (2021), run times; torchtune README, table of optimisation flags.
//
// Muon multiplies besides (newton_schulz.h).
#pragma once

#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Values of state an optimizer keeps per parameter: AdamW 2, Lion 1, SGD 0; Adafactor's row and
// column sums are neglected.
double state_values(OptimizerKind optimizer);

// Bytes of optimizer state per parameter: state_values times the framework's state_bytes; for the
// 8-bit Adam 1 byte each and an fp32 scale for every 256 of them.
double state_bytes_per_parameter(OptimizerKind optimizer, const ParameterStorage& storage);

// Bytes per parameter that an update allocates on top of states and gradients:
//
//   max(T, K + n s)    T  temporary_bytes: the gradient as the optimizer reads it is made
//                      K  kept_temporary_bytes: what stays of them, less gradients that are freed
//                      n  temporary_values of an unfused optimizer, in the s bytes of its states
//
// Source: torch.optim.AdamW makes the square root of the second moments, and before PyTorch 2.1 the
// denominator next to it; DeepSpeed runtime/zero/stage_1_and_2.py step: the gradients of a
// partition are flattened and cast to fp32, those in 16 bits are freed, then the optimizer runs.
double update_temporary_bytes(OptimizerKind optimizer, const ParameterStorage& storage,
                              const UpdateBehaviour& update);

// The operators of the step.  `parameters` are those that this rank updates, `gradients` the values
// that the norm reads.
struct UpdateOperators {
  Operator norm;
  Operator clip;
  Operator update;
};

UpdateOperators lower_update(OptimizerKind optimizer, const ParameterStorage& storage, bool fused,
                             double parameters, double gradients);

}  // namespace llmsim::sim
