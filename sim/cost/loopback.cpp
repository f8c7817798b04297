#include "sim/cost/loopback.h"

#include <cmath>

namespace llmsim::sim {

CollectiveTerms loopback_terms(CollectiveKind kind, Bytes message, const GroupLinks& links) {
  const double n = links.place.ranks;
  const Bytes pieces = (n - 1.0) / n * message;
  const Seconds hop = links.fabric_hop, exchange = hop + pieces / links.fabric;
  const Seconds sums = links.sums > BytesPerSecond(0.0) ? pieces / links.sums : Seconds(0.0);
  const Seconds pair = hop + message / links.fabric;
  const auto terms = [](Seconds alpha, Seconds time) {
    return CollectiveTerms{.route = CollectiveRoute::Host, .alpha = alpha, .time = time};
  };
  switch (kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::AllToAll: return terms(hop, exchange);
    case CollectiveKind::ReduceScatter: return terms(hop, exchange + sums);
    case CollectiveKind::AllReduce: return terms(2.0 * hop, 2.0 * exchange + sums);
    case CollectiveKind::Broadcast: {
      const double rounds = std::ceil(std::log2(n));
      return terms(rounds * hop, rounds * pair);
    }
    case CollectiveKind::SendRecv: return terms(hop, pair);
  }
  return terms(hop, pair);
}

}  // namespace llmsim::sim
