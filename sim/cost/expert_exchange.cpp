#include "sim/cost/expert_exchange.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
namespace {

// Of so many equal places those that a token with k experts visits.
double visited(double places, int top_k) { return places * (1.0 - std::pow(1.0 - 1.0 / places, top_k)); }

// Domains where a token's groups of experts are.
double allowed_domains(double domains, const ExpertRoute& route) {
  return std::min(domains, route.groups_per_token * std::max(1.0, domains / route.num_groups));
}

}  // namespace

ExchangedBytes deduplicated_bytes(Bytes message, const ExpertRoute& route, const GroupPlacement& place) {
  const double ranks = place.ranks, domains = place.domains;
  const Bytes tokens = message / route.top_k;
  return {.fabric = (ranks - domains) / ranks * visited(ranks, route.top_k) * tokens,
          .network = (domains - 1.0) / domains * visited(allowed_domains(domains, route), route.top_k) * tokens};
}

CollectiveTerms expert_exchange_terms(Bytes message, const ExpertRoute& route, const GroupLinks& links) {
  const CollectiveTerms rows = collective_terms(CollectiveKind::AllToAll, message, links);
  if (route.dispatch != ExpertDispatch::Deduplicated || links.place.ranks == 1) return rows;
  const Seconds empty = collective_time(CollectiveKind::AllToAll, Bytes(0.0), links);
  const ExchangedBytes sent = deduplicated_bytes(message, route, links.place);
  const Seconds near = sent.fabric / links.fabric;
  const double sharers = links.place.ranks_per_domain;
  const Seconds slower = links.place.domains == 1 ? near : std::max(near, sharers * sent.network / links.network);
  const CollectiveTerms tokens{.route = CollectiveRoute::Deduplicated, .alpha = empty, .time = empty + slower};
  return tokens.time < rows.time ? tokens : rows;
}

Seconds expert_exchange_time(Bytes message, const ExpertRoute& route, const GroupLinks& links) {
  return expert_exchange_terms(message, route, links).time;
}

}  // namespace llmsim::sim
