#include "sim/cost/expert_exchange.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
namespace {

// Share of `places` equal places that a token with k experts visits.
double visited_share(double places, int top_k) { return 1.0 - std::pow(1.0 - 1.0 / places, top_k); }

}  // namespace

ExchangedBytes deduplicated_bytes(Bytes message, int top_k, const GroupPlacement& place) {
  const double ranks = place.ranks, domains = place.domains;
  const Bytes tokens = message / top_k;
  return {.fabric = (ranks - domains) * visited_share(ranks, top_k) * tokens,
          .network = (domains - 1.0) * visited_share(domains, top_k) * tokens};
}

Seconds expert_exchange_time(Bytes message, const ExpertRoute& route, const GroupLinks& links) {
  const Seconds rows = collective_time(CollectiveKind::AllToAll, message, links);
  if (route.dispatch != ExpertDispatch::Deduplicated || links.place.ranks == 1) return rows;
  const Seconds empty = collective_time(CollectiveKind::AllToAll, Bytes(0.0), links);
  const ExchangedBytes sent = deduplicated_bytes(message, route.top_k, links.place);
  const Seconds near = sent.fabric / links.fabric;
  if (links.place.domains == 1) return std::min(rows, empty + near);
  const double sharers = links.place.ranks_per_domain;
  return std::min(rows, empty + std::max(near, sharers * sent.network / links.network));
}

}  // namespace llmsim::sim
