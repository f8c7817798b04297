// Every collective of a step on its busiest rank, message by message; communication.h has their sums.
//
// Blocks that a low-precision recipe leaves in 16 bits count as the others here.
#pragma once

#include <vector>

#include "sim/run.h"
#include "sim/schedule/stage_work.h"

namespace llmsim::sim {

// Each kind, group and message once, with its calls in a step; none over one rank.  Requires a valid run.
std::vector<RepeatedCollective> step_collectives(const Run& run);

}  // namespace llmsim::sim
