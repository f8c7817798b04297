// Time of a collective between the processes of one host, whose messages go through its kernel (Gloo over the loopback
// interface).
//
// Every process exchanges pieces with every other at once.  For n of them and S message bytes (nccl-tests' size), with a, what
// an exchange of nothing takes (threads that wake each other), b, the rate at which a process sends while it receives as much,
// and c, that at which it adds up what has come,
//
//   all-gather, all-to-all   t = a + (n-1)/n S / b
//   reduce-scatter           t = a + (n-1)/n S (1/b + 1/c)
//   all-reduce               t = a + (n-1)/n S (2/b + 1/c) + a
//   broadcast                t = ceil(log2 n) (a + S / b)
//   send-receive             t = a + S / b
//
// The volumes are those of rings in one round.  Source: runtime/parallel/gloo_communicator.h, which is built like this.
#pragma once

#include "sim/cost/collective.h"

namespace llmsim::sim {

// Requires more than one rank, all in one domain.
CollectiveTerms loopback_terms(CollectiveKind kind, Bytes message, const GroupLinks& links);

}  // namespace llmsim::sim
