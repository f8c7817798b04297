// Time of a collective over a group of ranks, in the alpha-beta model of NCCL's own tuner.
//
// For n ranks in D scale-up domains, S message bytes (nccl-tests' size), hop latencies a (inside) and A (between domains), and
// the bus bandwidth b that the group's ring achieves, each protocol p with base latency o_p, hop factors and bandwidth factor e_p
// gives
//
//   ring    all-reduce          t = o + (2(n-1) - 2(D-1)) a + 2(D-1) A + 2 (n-1)/n S / (e b)
//           gather, scatter     t = o + ((n-1) - (D-1)) a + (D-1) A + (n-1)/n S / (e b)
//   tree    all-reduce          t = o + 2 ((n/D - 1) a + log2(D) A) + (max(2 (n-1)/n S / f, 2 (D-1)/D S / w)
//                                   + 2 log2(D) min(S, F) / b) / (e_tree e)
//   pair    send_recv           t = o + (a or A) + S / b
//   direct  all-to-all          t = o + (n-1)/n S / b, the part that leaves the domain over the network
//
//   hierarchical                t = o + r ((n/D - 1) a + log2(D) A + (n/D - 1)/(n/D) S / f + (D-1)/D S / w), r = 2 for
//   all-reduce, else 1
//
// and the fastest of ring and tree is taken, unless the cluster says which.  f and w are the fabric's and the network's part of
// b.  F is what a tree holds back at each level. Inside a switched domain few ranks reach less of b than eight do, (1 + c/64) /
// (1 + c/n^2): 0.73 for gathers and scatters of two ranks.  The bus bandwidth is the smaller of what the fabric gives the ranks
// of one domain and what the network gives the group: a domain's injection bandwidth shared by the groups that run side by side,
// times (D/2)^-ring_decay on networks where measured rings slow down with the number of nodes. Over sockets a node carries no
// more than its host's kernels do. One rank is free.  Processes of one host have
// formulas of their own (loopback.h).  Source: NCCL src/graph/tuning.cc (latency and bandwidth tables).
#pragma once

#include "sim/hardware/cluster.h"
#include "sim/operators/operator.h"
#include "sim/strategy/mesh.h"

namespace llmsim::sim {

// The links under one group.
struct GroupLinks {
  GroupPlacement place{};
  BytesPerSecond fabric{};   // achieved bus bandwidth inside a domain
  BytesPerSecond network{};  // achieved bus bandwidth of the group across domains
  BytesPerSecond nominal{};  // bus bandwidth that the links are built for
  double ring_share = 1.0;   // of `network` that a ring over all domains keeps
  Seconds fabric_hop{};
  Seconds network_hop{};
  BytesPerSecond sums{};  // Fabric::sum_bandwidth
  bool switched = false;  // behind a switch
  bool loopback = false;  // processes of one host
  bool in_switch_reduction = false;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Auto;

  BytesPerSecond bus_bandwidth() const;
};

// Links of the groups of `kind`; `efficiency` scales bandwidths (a framework's collective_efficiency).
GroupLinks group_links(const Strategy& strategy, GroupKind kind, const Cluster& cluster, double efficiency);

// How a message goes over the ranks.  InSwitch: a ring whose switch adds; Pair: from one rank to the next; Host: exchanges
// through the kernel of one host (loopback.h); Deduplicated: expert_exchange.h.
enum class CollectiveRoute { None, Ring, Tree, InSwitch, Hierarchical, Direct, Pair, Host, Deduplicated };

// "none", "ring", "tree", "in-switch", "hierarchical", "direct", "pair", "host", "deduplicated".
const char* name_of(CollectiveRoute route);

// Protocols of NCCL: acknowledged chunks, stores of 128 or of 8 bytes with a flag in each.
enum class CollectiveProtocol { Simple, LL128, LL };

const char* name_of(CollectiveProtocol protocol);  // "Simple", "LL128", "LL"

// The fastest way and the two terms of its time.
struct CollectiveTerms {
  CollectiveRoute route = CollectiveRoute::None;
  CollectiveProtocol protocol = CollectiveProtocol::Simple;
  Seconds alpha{};  // what a message of nothing takes
  Seconds time{};

  Seconds beta() const { return time - alpha; }  // what its bytes take
};

CollectiveTerms collective_terms(CollectiveKind kind, Bytes message, const GroupLinks& links);

Seconds collective_time(CollectiveKind kind, Bytes message, const GroupLinks& links);

// nccl-tests' factor from algbw, message / time, to busbw: 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather,
// reduce-scatter and all-to-all, 1 for broadcast and send-receive.
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace llmsim::sim
