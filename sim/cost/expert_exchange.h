// Tokens on their way to the ranks that have their experts, and back.
//
// A message of M bytes is the rows of t tokens that visit k experts each.  Over x ranks in D scale-up domains of p = x / D:
//
//   all-to-all     collective.h: every row leaves for its own expert
//   deduplicated   a token leaves once for each other domain that it visits, lands there on the rank with the sender's number,
//                  and goes from there, once, to each rank that it visits.  Of k experts spread evenly, a token visits
//                  n (1 - (1 - 1/n)^k) of n places, so with M / k bytes of tokens
//                    network  M / k (D - 1) (1 - (1 - 1/D)^k),      fabric  M / k (x - D) (1 - (1 - 1/x)^k)
//                  at a rank; both run at once, the slower sets the time.  A router that keeps a token to g of G groups of
//                  experts leaves it d = min(D, g max(1, D / G)) domains: D (1 - (1 - 1/D)^k) becomes d (1 - (1 - 1/d)^k)
//
// Source: DeepEP (deepseek-ai/DeepEP README: RDMA to the same rank of each node, NVLink from there).
#pragma once

#include "sim/cost/collective.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

struct ExpertRoute {
  ExpertDispatch dispatch = ExpertDispatch::AllToAll;
  int top_k = 1;
  int num_groups = 1;  // of experts, of which a token visits
  int groups_per_token = 1;
};

// Bytes of a message that leave a rank over each kind of link.
struct ExchangedBytes {
  Bytes fabric{};
  Bytes network{};
};
ExchangedBytes deduplicated_bytes(Bytes message, const ExpertRoute& route, const GroupPlacement& place);

// Of an all-to-all operator of the expert group.
CollectiveTerms expert_exchange_terms(Bytes message, const ExpertRoute& route, const GroupLinks& links);
Seconds expert_exchange_time(Bytes message, const ExpertRoute& route, const GroupLinks& links);

}  // namespace llmsim::sim
