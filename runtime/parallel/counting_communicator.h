// A group of which only one rank exists: collectives are counted and carry nothing.  With the meta device one process stands for
// any rank of any cluster.
#pragma once

#include <memory>

#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

std::unique_ptr<Communicator> counting_communicator(int rank, int size);

}  // namespace llmsim::runtime
