// Compute and communication of one pass over the units of a stage (blocks, several blocks or parts of one, see
// Framework::unit_blocks), as events on three streams: compute, the data-parallel communicator, and that between replicas.
//
// A communicator carries one collective at a time, in the order of issue.  The gather of a unit's weights is issued when the unit
// `prefetch` places before it starts to compute (0: when the unit before it has computed, before that unit's reduction); a unit
// computes when its weights have arrived; its reduction is issued when it has computed, before the gathers that the next unit
// issues when it starts.  The sum over replicas follows on their own communicator, after the reduction where there is one.
//
//   compute      c_0        c_1        c_2
//   channel   g_0   g_1 r_0     g_2 r_1     r_2
//
// Either kind may be kept apart from compute: a gather is then issued when the unit before it has computed, and the unit after a
// reduction computes when that is through.
//
// A unit computes more slowly while a communicator is busy (cost/contention.h): by the loss of each, of both by the sum, but no
// more than 0.9 or the larger.  The exposed time is what the pass takes beyond its compute, slowed down as it is.  Of equal units
// exposed_gather.h has it in closed form.
//
// The order of issue is that of torch.distributed.fsdp (Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.3: prefetching, one
// communicator, rate limiter); the event simulation is ours.
#pragma once

#include <span>

#include "sim/base/quantity.h"

namespace llmsim::sim {

// One unit of a pass.
struct OverlapUnit {
  Seconds gather{};  // weights that must arrive before compute
  Seconds compute{};
  Seconds reduce{};     // gradients to send after compute
  Seconds replicate{};  // and to add up over replicas
};

// How a framework runs them.
struct OverlapHabits {
  int prefetch = 1;
  bool gathers_overlap = true;
  bool reductions_overlap = true;
  bool scatters_alone = false;  // the next unit computes when the reduction of the one before it is through
};

// A rate limiter lets no more gathers than this be under way.
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
OverlapTimes overlap_times(std::span<const OverlapUnit> units, const OverlapHabits& habits, const OverlapLoss& loss = {});

}  // namespace llmsim::sim
