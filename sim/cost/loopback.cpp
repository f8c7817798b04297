#include "sim/cost/loopback.h"

#include <cmath>

namespace llmsim::sim {

Seconds loopback_time(CollectiveKind kind, Bytes message, const GroupLinks& links) {
  const double n = links.place.ranks;
  const Bytes pieces = (n - 1.0) / n * message;
  const Seconds exchange = links.fabric_hop + pieces / links.fabric;
  const Seconds sums = links.sums > BytesPerSecond(0.0) ? pieces / links.sums : Seconds(0.0);
  const Seconds pair = links.fabric_hop + message / links.fabric;
  switch (kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::AllToAll: return exchange;
    case CollectiveKind::ReduceScatter: return exchange + sums;
    case CollectiveKind::AllReduce: return 2.0 * exchange + sums;
    case CollectiveKind::Broadcast: return std::ceil(std::log2(n)) * pair;
    case CollectiveKind::SendRecv: return pair;
  }
  return pair;
}

}  // namespace llmsim::sim
