// Collectives of GPUs over NCCL or RCCL.  Builds everywhere; making one throws Error where there is
// no device or no library.
//
// Each kind of traffic has a lane of its own, a NCCL communicator with a stream and a thread that
// launches in order: one lane for the collectives of the group, and one for each direction between
// two ranks that exchange messages, so that two stages may send to one another at the same time.  A
// lane of messages is connected when it is first used.
//
// wait() orders the caller's current stream behind the operation and does not stop the host;
// barrier() does.  A lane whose operation has not ended within `timeout` is aborted, and the next
// call throws Error naming the ranks that did not answer.
//
// Written to the interface as documented (NCCL 2.7 or later); not yet run on a device.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/rank_groups.h"
#include "runtime/parallel/roll_call.h"

namespace llmsim::runtime {

// Of the current device of the calling thread.  Called on every member, in the
// same order of groups.
std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<RollCall> roll_call,
                                                const GroupMembers& members,
                                                std::chrono::milliseconds timeout);

}  // namespace llmsim::runtime
