// Overlap of one pass with its data-parallel communication: FSDP's gathers of weights and
// reductions of gradients run during the compute of other units, and what is not hidden is exposed.
//
// A pass runs over the units of a stage (FSDP units: a block, several blocks, or a fraction of one;
// ShardedWeights::unit_blocks) as events on three streams: compute, the data-parallel communicator
// (channel), and the communicator between replicas.
//
// A communicator carries one collective at a time, in the order of issue.  The gather of a unit's
// weights is issued when the unit `prefetch` places before it starts to compute (with prefetch 0,
// when the unit before it has computed, ahead of that unit's reduction).  A unit computes when its
// weights have arrived.  Its reduction is issued when it has computed, before the gathers that the
// next unit issues at its start.  The sum over replicas follows on its own communicator, after the
// reduction where there is one.
//
//   compute      c_0        c_1        c_2
//   channel   g_0   g_1 r_0     g_2 r_1     r_2
//
// Either kind may be excluded from overlap: a gather is then issued when the unit before it has
// computed, and the unit after a reduction computes when that has ended.
//
// A unit computes more slowly while a communicator is busy (cost/contention.h): by the loss of the
// one that is, by the sum of both losses where both are, but by no more than 0.9 or the larger of
// the two.  The exposed time is what the pass takes beyond its compute, slowed down as it is.
//
// For n equal units that compute for c each and are gathered in g, without other traffic and with
// the loss l, there is a closed form, to which a test holds the events (prefetch 1; without
// prefetch no gather is hidden, and the exposed time is n g):
//
//   c'       = min(c + l g, c / (1 - l))      the gather ends before the unit does, or after it
//   end      = g + (n - 1) max(g, c') + c
//   slowdown = (n - 1) (c' - c)
//   exposed  = end - n c - slowdown = g + (n - 1) max(0, g - c')
//
// Source of the order of issue: torch.distributed.fsdp (Zhao et al., "PyTorch FSDP", VLDB 2023,
// section 3.3: prefetching, one communicator, rate limiter).  The event simulation is ours.
#pragma once

#include <span>

#include "sim/base/quantity.h"

namespace llmsim::sim {

// Equal units of a pass, one after the other.
struct OverlapUnit {
  Seconds gather{};  // weights that must arrive before compute
  Seconds compute{};
  Seconds reduce{};     // gradients to send after compute
  Seconds replicate{};  // gradients to add up over replicas afterwards
  int count = 1;
};

// How a framework overlaps them.
struct OverlapBehaviour {
  int prefetch = 1;
  bool gathers_overlap = true;
  bool reductions_overlap = true;
  // The next unit computes only when the reduction of the unit before it has ended.
  bool scatters_alone = false;
};

// A rate limiter lets no more gathers than this be in flight.
inline constexpr int kMostPrefetch = 15;

// Share of its rate that compute loses while each communicator is busy.
struct OverlapLoss {
  double channel = 0.0;
  double replicas = 0.0;
};

struct OverlapTimes {
  Seconds end{};       // of all streams
  Seconds slowdown{};  // of all units' compute
};

// Runs the units in order.
OverlapTimes overlap_times(std::span<const OverlapUnit> units, const OverlapBehaviour& behaviour,
                           const OverlapLoss& loss = {});

}  // namespace llmsim::sim
