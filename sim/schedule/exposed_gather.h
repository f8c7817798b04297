// Exposed all-gathers of FSDP: how much longer a pass over equal units takes because their weights have to arrive first.
//
// Each of n units computes for c and is gathered in g, on a communicator that carries one gather at a time.  The gather of a unit
// is issued when the unit before it starts to compute (prefetch 1), so that only the first has nothing to hide behind; beside a
// gather compute loses the share l of its rate, and a unit takes
//
//   c' = min(c + l g, c / (1 - l))      the gather is through before the unit, or not
//
// The first unit starts at g, each of the others when both the unit before it and its own gather are through, max(g, c') later,
// and nothing is gathered beside the last one, so that
//
//   end      = g + (n - 1) max(g, c') + c
//   slowdown = (n - 1) (c' - c)
//   exposed  = end - n c - slowdown = g + (n - 1) max(0, g - c')
//
// With l = 0 a deeper prefetch changes nothing.  Without prefetch no gather is hidden and none slows compute down: exposed = n g.
//
// Assumes equal units and no other traffic, as in a forward pass without the root unit; passes run unit by unit (overlap.h), and
// a test holds the two to each other.  The order of issue is that of torch.distributed.fsdp (Zhao et al., "PyTorch FSDP", VLDB
// 2023, section 3.3); the closed form is ours.
#pragma once

#include <algorithm>

#include "sim/base/quantity.h"

namespace llmsim::sim {

// Equal units of sharded weights in one pass.
struct EqualUnits {
  int count = 1;      // n, at least 1
  Seconds gather{};   // g
  Seconds compute{};  // c
};

// c': a unit beside the gather of the next, 0 <= loss < 1.
inline Seconds compute_beside_gather(const EqualUnits& units, double loss) {
  return std::min(units.compute + loss * units.gather, units.compute / (1.0 - loss));
}

inline Seconds exposed_gather(const EqualUnits& units, bool prefetches, double loss = 0.0) {
  if (!prefetches) return units.count * units.gather;
  const Seconds later = units.gather - compute_beside_gather(units, loss);
  return units.gather + (units.count - 1) * std::max(Seconds(0.0), later);
}

}  // namespace llmsim::sim
