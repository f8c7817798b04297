// What ranks tell each other between measurements, so that all repeat, record
// and leave out the same.
//
// Each is called on every rank of `world`, whose tensors are on `device`; without a
// world, a rank is alone.
#pragma once

#include <vector>

#include <c10/core/Device.h>

#include "runtime/parallel/communicator.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

// What rank 0 answers.
bool answer_of_first(Communicator& world, bool own, c10::Device device);

// The time of the slowest rank.
sim::Seconds slowest(Communicator* world, sim::Seconds own, c10::Device device);

// The value of each rank, by rank.
std::vector<double> of_all_ranks(Communicator* world, double own, c10::Device device);

}  // namespace llmsim::runtime
