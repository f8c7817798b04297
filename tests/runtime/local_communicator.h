// Ranks that are threads of one process: collectives through shared memory.  For tests of the
// parallel forms.
//
// A rank that does not come within `patience` fails the call on every other rank with an error that
// names it.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

// One communicator for each of `size` ranks; they may be used from different threads, and may
// outlive one another.
std::vector<std::unique_ptr<Communicator>> local_group(
    int size, std::chrono::seconds patience = std::chrono::seconds(60));

}  // namespace llmsim::runtime
