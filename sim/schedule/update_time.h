// Time of the optimizer step.
//
// On the device it streams gradients, weights and states at the achieved memory bandwidth, or computes on the vector units where
// that takes longer; sharded optimizers own a share of the parameters; Muon multiplies besides (operators/update.h).  An
// optimizer that runs inside the backward pass takes no norm of all gradients, nor does a run without gradient_clip.  Offloaded,
// the CPU streams fp32 gradients, weights and states at a rank's share of host memory bandwidth, slower where its optimizer is
// not fused; it scales the gradients (their norm was taken on the device), and new weights go up where the device keeps a copy.
#pragma once

#include "sim/run.h"

namespace llmsim::sim {

// `parameters` are the trained values of the stage that has most, on one tensor rank, without `experts`: routed ones that are
// divided over expert ranks.
Seconds update_time(const Run& run, double parameters, double experts = 0.0);

}  // namespace llmsim::sim
