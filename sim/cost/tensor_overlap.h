// Tensor-parallel collectives that run beside products: what of them shows.
//
// A product that a collective feeds or follows is cut into one piece per rank, and the message with it.  The first piece is the
// rank's own, so n pieces of compute meet n - 1 pieces of communication.  For a collective of c and a product of g that takes p
// in each of n pieces
//
//   t = p + (n - 1) max(p, c / (n - 1))        t - g shows
//
// (smaller products run less well: n p > g).  Of a product that needs nothing of the collective max(0, c - g) shows.  Either way
// the collective's own use of the device (units, memory) costs the product `contention` of the time that is hidden, and nothing
// is ever slower than one after the other.  Sources: Wang et al., "Overlap Communication with Dependent Computation via
// Decomposition", ASPLOS 2023; TransformerEngine's userbuffers; Megatron Core's LinearWithGradAccumulationAndAsyncCommunication.
#pragma once

#include "sim/operators/operator.h"

namespace llmsim::sim {

struct OverlapProduct {
  Seconds whole{};  // g
  Seconds piece{};  // p
};

Seconds pipelined_exposed(Seconds collective, const OverlapProduct& product, int pieces, double contention);
Seconds beside_exposed(Seconds collective, Seconds product, double contention);

// Products of `operators` beside which the collective at `index` runs, as its `tensor_overlap` says: [first, last).  Casts
// between products belong to them.
OperatorRange overlapped_products(const OperatorList& operators, std::size_t index);

// Whether a product of the range is one of those the collective runs beside.
bool is_overlapped(const Operator& collective, const Operator& product);

}  // namespace llmsim::sim
