// Collectives over Gloo's messages between processes: CPU tensors of any number
// format, on any libtorch.
//
// Gloo itself lacks reduce-scatter and bf16 in some releases, so all collectives are made of its
// sends and receives here: every rank exchanges pieces with every other (all-gather, all-to-all,
// reduce-scatter; an all-reduce is a reduce-scatter and an all-gather; a broadcast is a binomial
// tree), the volumes of the ring algorithms in fewer rounds.  Sums are taken in the order of the
// ranks and rounded to the buffer's format after each addition, so every rank has the same bits.
//
// Collectives run in order on a thread of the communicator, concurrently with the caller's work;
// messages are posted at once.  Scratch for what arrives to be summed (the whole buffer of a
// reduce-scatter) is the communicator's own, outside the tensor allocator.
//
// An operation that fails or gets no answer within the timeout throws Error naming the ranks to
// blame and their hosts; the group is of no use afterwards.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/rank_groups.h"
#include "runtime/parallel/roll_call.h"

namespace llmsim::runtime {

struct GlooOptions {
  std::string address = "127.0.0.1";  // of this host, where the other ranks reach it
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

// Called on every member, in the same order of groups; waits until all of them are connected, so
// that each may leave the group as soon as it has it.
std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<RollCall> roll_call,
                                                const GroupMembers& members,
                                                const GlooOptions& options);

}  // namespace llmsim::runtime
