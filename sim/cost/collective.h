// Time of a collective over a group of ranks, in the alpha-beta model of NCCL's own tuner.
//
// n ranks in D scale-up domains of p = n / D, S message bytes (nccl-tests' size), hop latencies a
// (inside a domain) and A (between domains), and the bus bandwidths f (inside) and w (between) that
// the group achieves; L and l, what an all-to-all over the network takes at once and for each
// message that leaves the domain (0 but for fabrics where it was measured).  A protocol has a base
// latency o, factors by which its hops are shorter than a and A, and a share e of the bandwidth:
//
//              o         a          A          e
//     Simple   8.4 us    1          1          1
//     LL128    14.0 us   1.9 / 3.4  4 / 14     0.92
//     LL       6.6 us    0.6 / 3.4  2.7 / 14   0.25
//
//   ring          all-reduce       t = o + 2 (n - D) a + 2 (D-1) A + 2 (n-1)/n S / (e b)
//                 one round        t = o + (n - D) a + (D-1) A + (n-1)/n S / (e b)
//   tree          all-reduce       t = o + 2 (p-1) a + 2 log2(D) A
//                                      + (max(2 (n-1)/n S / f, 2 (D-1)/D S / (r w))
//                                         + 2 log2(D) min(S, F) / b) / (0.92 e)
//   in-switch     all-reduce       that of the ring, Simple, at 1.30 b, of a domain of at least 5
//                                  ranks
//   hierarchical  all-reduce       twice all of the next but o
//                 one round        t = o + (p-1) a + log2(D) A
//                                      + (p-1)/p S / (e f) + (D-1)/D S / (e w)
//   direct        all-to-all       t = 8.4 us + max(a, A) + max((p-1)/n S / f, p (n-p)/n S / w)
//                                      + L + (n-p) l over several domains
//   pair          send-receive     t = 8.4 us + (a + S / f, or A + S / w between domains)
//
// One round is an all-gather, a reduce-scatter or a broadcast.  The fastest protocol counts, and
// the fastest of ring, tree and in-switch unless the cluster says which; hierarchies are taken only
// where it does, over several domains.  On one domain a tree has no D - 1 or log2(D), and its f is
// b.  F = 13.6 MB is what a tree holds back at each level.
//
// A ring over several domains takes at least R (n-1) g for its bytes, R of 1 or 2 rounds, where a
// piece S / n is of at least 16 KiB: libfabric asks the receiver before it sends as much (its
// rendezvous), and the slowest hop passes n-1 pieces a round one after the other.  g is 0 but for
// networks where it was measured.
//
// The ring's b is f on one domain, else the smaller of f and r w (r w alone of one rank a domain,
// also in the tree's maximum): w is a domain's injection bandwidth shared by the groups that run
// side by side, r = (D/d)^-ring_decay, D > d = ring_domains, what rings keep of it on networks
// where they slow down with the number of nodes.  Few ranks on one switched domain reach less of f
// than eight do, min(1, (1 + c/64) / (1 + c/n^2)) with c = 1.6, in all-reduces 0.6: 0.73 for
// gathers and scatters of two ranks; a pair is spared that.  An all-to-all's ranks all send over
// the same w: p times.  Over sockets a node carries no more than its host's kernels do. One rank,
// or no message, is free.
//
// Processes of one host send pieces through its kernel (Gloo over the loopback interface), every
// one to every other at once.  With a the time of an empty message (threads that wake each other),
// f the rate at which a process sends while it receives as much, and c the rate at which it adds up
// what it has received (free where c is unknown),
//
//   host          all-gather, all-to-all   t = a + (n-1)/n S / f
//                 reduce-scatter           t = a + (n-1)/n S (1/f + 1/c)
//                 all-reduce               t = 2 a + (n-1)/n S (2/f + 1/c)
//                 broadcast                t = ceil(log2 n) (a + S / f)
//                 send-receive             t = a + S / f
//
// Sources: NCCL src/graph/tuning.cc (latency and bandwidth tables, protocols); in-switch gain, loss
// of few ranks and F, curves of nccl-tests (calibrate/README.md);
// runtime/parallel/gloo_communicator.h, which is built as the host's formulas say.
#pragma once

#include "sim/hardware/cluster.h"
#include "sim/operators/operator.h"
#include "sim/run.h"
#include "sim/strategy/mesh.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// The links under one group.
struct GroupLinks {
  GroupPlacement place{};
  BytesPerSecond fabric{};   // achieved bus bandwidth inside a domain
  BytesPerSecond network{};  // achieved bus bandwidth of the group across domains
  BytesPerSecond nominal{};  // bus bandwidth that the links are built for
  double ring_share = 1.0;   // of `network` that a ring over all domains keeps
  Seconds ring_step{};       // Network::ring_step
  Seconds fabric_hop{};
  Seconds network_hop{};
  Seconds all_to_all{};   // Network::all_to_all_latency
  Seconds peer{};         // Network::peer_latency
  BytesPerSecond sums{};  // Fabric::sum_bandwidth
  bool switched = false;  // behind a switch
  bool loopback = false;  // processes of one host
  bool in_switch_reduction = false;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Auto;

  BytesPerSecond bus_bandwidth() const;
};

// Links of the groups of `kind`; `efficiency` scales bandwidths (a
// framework's collective_efficiency).
GroupLinks group_links(const Strategy& strategy, GroupKind kind, const Cluster& cluster,
                       double efficiency);
GroupLinks group_links(const Run& run, GroupKind kind);

// The route of a message over the ranks.  InSwitch: a ring whose switch adds; Pair: from one rank
// to the next; Host: exchanges through the kernel of one host; Deduplicated: of tokens, below.
enum class CollectiveRoute {
  None,
  Ring,
  Tree,
  InSwitch,
  Hierarchical,
  Direct,
  Pair,
  Host,
  Deduplicated
};

// "none", "ring", "tree", "in-switch", "hierarchical", "direct", "pair", "host", "deduplicated".
const char* name_of(CollectiveRoute route);

// Protocols of NCCL: acknowledged chunks, stores of 128 or of 8 bytes with a flag in each.
enum class CollectiveProtocol { Simple, LL128, LL };

const char* name_of(CollectiveProtocol protocol);  // "Simple", "LL128", "LL"

// The fastest route and the two terms of its time.
struct CollectiveTerms {
  CollectiveRoute route = CollectiveRoute::None;
  CollectiveProtocol protocol = CollectiveProtocol::Simple;
  Seconds alpha{};  // what a message of nothing takes
  Seconds time{};

  Seconds beta() const { return time - alpha; }  // what its bytes take
};

CollectiveTerms collective_terms(CollectiveKind kind, Bytes message, const GroupLinks& links);

Seconds collective_time(CollectiveKind kind, Bytes message, const GroupLinks& links);

// nccl-tests' factor from algbw, message / time, to busbw: 2 (n - 1) / n for all-reduce, (n - 1) /
// n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and send-receive.
double bus_factor(CollectiveKind kind, int ranks);

// Tokens on their way to the ranks that have their experts, and back.
//
// A message of M bytes is the rows of t tokens that visit k experts each.  Over x ranks in D
// scale-up domains of p = x / D:
//
//   all-to-all     as above: every row leaves for its own expert
//   deduplicated   a token leaves once for each other domain that it visits, lands there on the
//                  rank with the sender's number, and goes from there, once, to each rank that it
//                  visits.  Of k experts spread evenly, a token visits
//                  n (1 - (1 - 1/n)^k) of n places, so with M / k bytes of tokens
//                    network  M / k (D - 1) (1 - (1 - 1/D)^k)
//                    fabric   M / k (x - D) (1 - (1 - 1/x)^k)
//                  at a rank; both run at once, the slower sets the time.  A router that keeps a
//                  token to g of G groups of experts leaves it d = min(D, g max(1, D / G)) domains:
//                  D (1 - (1 - 1/D)^k) becomes d (1 - (1 - 1/d)^k).  Its kernels are given a few
//                  multiprocessors, which hand over what arrives at a rank,
//                    kernels  M / k x (1 - (1 - 1/x)^k)
//                  its own tokens among it, at no more than kernel_bandwidth (0: as fast as links)
//
// Source: DeepEP (deepseek-ai/DeepEP README: RDMA to the same rank of each
// node, NVLink from there; its tests count what arrives).

struct ExpertRoute {
  ExpertDispatch dispatch = ExpertDispatch::AllToAll;
  int top_k = 1;
  int num_groups = 1;  // of experts, of which a token visits
  int groups_per_token = 1;
  BytesPerSecond kernel_bandwidth{};  // of all its multiprocessors; 0: as fast as the links
};

// Bytes of a message that leave a rank over each kind of link.
struct AllToAllBytes {
  Bytes fabric{};
  Bytes network{};
};
AllToAllBytes deduplicated_bytes(Bytes message, const ExpertRoute& route,
                                 const GroupPlacement& place);

// Of an all-to-all operator of the expert group.
CollectiveTerms expert_all_to_all_terms(Bytes message, const ExpertRoute& route,
                                        const GroupLinks& links);
Seconds expert_all_to_all_time(Bytes message, const ExpertRoute& route, const GroupLinks& links);

}  // namespace llmsim::sim
