// Time of the optimizer step.
//
// On the device it streams gradients, weights and states at the achieved memory bandwidth; sharded optimizers own a share of the
// parameters.  Offloaded, the CPU streams them at the speed of host memory, and new weights go up where the device keeps a copy.
#pragma once

#include "sim/run.h"

namespace llmsim::sim {

// `parameters` are the trained values of the stage that has most, on one tensor rank.
Seconds update_time(const Run& run, double parameters);

}  // namespace llmsim::sim
