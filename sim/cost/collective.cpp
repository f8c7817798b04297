#include "sim/cost/collective.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace llmsim::sim {

namespace {

// Latencies of NCCL's protocols: base, and hops relative to those of Simple (3.4 us on NVLink, 14
// us on the network).
struct Protocol {
  CollectiveProtocol name;
  Seconds base;
  double fabric_hop;
  double network_hop;
  double bandwidth;
};

constexpr std::array<Protocol, 3> kProtocols{{
    {CollectiveProtocol::Simple, Seconds(8.4e-6), 1.0, 1.0, 1.0},
    {CollectiveProtocol::LL128, Seconds(14.0e-6), 1.9 / 3.4, 4.0 / 14.0, 0.92},
    {CollectiveProtocol::LL, Seconds(6.6e-6), 0.6 / 3.4, 2.7 / 14.0, 0.25},
}};
// By CollectiveProtocol.
constexpr std::array<const char*, 3> kProtocolNames{"Simple", "LL128", "LL"};
constexpr std::array<const char*, 9> kRoutes{"none", "ring", "tree", "in-switch", "hierarchical",
                                             // By CollectiveRoute.
                                             "direct", "pair", "host", "deduplicated"};
// Default of FI_CXI_RDZV_THRESHOLD.  Source: libfabric, fi_cxi(7).
constexpr Bytes kRendezvousPiece{16384.0};
constexpr double kTreeBandwidth = 0.92;
// A step of a tree forwards what it has got only chunk by chunk: it holds back this much of a large
// message at every level. 80 us per level and direction pair between 4 and 512 nodes of 8 H100 at
// 340 GB/s.
constexpr Bytes kTreeFill{13.6e6};
// Loss of few ranks behind a switch, see few_ranks.
constexpr double kFewRanksGather = 1.6, kFewRanksReduce = 0.6;
// Measured all-reduce bus bandwidth with in-switch reduction over that of the ring: 480 / 370 GB/s
// on 8 H100.
constexpr double kInSwitchGain = 1.30;
constexpr int kInSwitchMinRanks = 5;

BytesPerSecond fabric_bandwidth(const Fabric& fabric, const GroupPlacement& place) {
  const int n = place.ranks_per_domain;
  switch (fabric.kind) {
    case FabricKind::Mesh:
      return std::min(fabric.device_bandwidth, std::max(1, n - 1) * fabric.pair_bandwidth);
    case FabricKind::Paired:
      return n == 2 && place.stride == 1
                 ? fabric.package_bandwidth
                 : std::min(fabric.device_bandwidth, std::max(1, n / 2) * fabric.pair_bandwidth);
    case FabricKind::Torus:
      return n < fabric.devices ? std::min(fabric.device_bandwidth, 2.0 * fabric.pair_bandwidth)
                                : fabric.device_bandwidth;
    case FabricKind::Switch:
    case FabricKind::Host:
    case FabricKind::Loopback: return fabric.device_bandwidth;
  }
  return fabric.device_bandwidth;
}

// Achieved injection of one node.
BytesPerSecond node_bandwidth(const Cluster& cluster, double efficiency) {
  const BytesPerSecond adapters =
      efficiency * cluster.device.achieved.scale_out_fraction * cluster.network.node_bandwidth;
  return cluster.network.transport == Transport::Sockets
             ? std::min(adapters, cluster.network.socket_bandwidth)
             : adapters;
}

Seconds hops(const GroupLinks& links, const Protocol& protocol, double fabric, double network) {
  return fabric * protocol.fabric_hop * links.fabric_hop +
         network * protocol.network_hop * links.network_hop;
}

// Share of the bus bandwidth of eight ranks behind a switch that n reach.
double few_ranks(const GroupLinks& links, double loss) {
  if (!links.switched || links.place.domains > 1) return 1.0;
  const double n = links.place.ranks;
  return std::min(1.0, (1.0 + loss / 64.0) / (1.0 + loss / (n * n)));
}

CollectiveTerms terms_of(CollectiveRoute route, const Protocol& protocol, Seconds alpha,
                         Seconds beta) {
  return {.route = route, .protocol = protocol.name, .alpha = alpha, .time = alpha + beta};
}

CollectiveTerms ring_terms(double rounds, Bytes message, const GroupLinks& links,
                           const Protocol& protocol) {
  const double n = links.place.ranks, domains = links.place.domains;
  const Bytes wire = rounds * (n - 1.0) / n * message;
  const Seconds alpha =
      protocol.base + hops(links, protocol, rounds * (n - domains), rounds * (domains - 1.0));
  const double few = few_ranks(links, rounds > 1.0 ? kFewRanksReduce : kFewRanksGather);
  Seconds bytes = wire / (few * protocol.bandwidth * links.bus_bandwidth());
  if (domains > 1.0 && message / n >= kRendezvousPiece)
    bytes = std::max(bytes, rounds * (n - 1.0) * links.ring_step);
  return terms_of(CollectiveRoute::Ring, protocol, alpha, bytes);
}

// A tree crosses the network with 2 (D-1)/D of the message per domain, and each of its steps fills
// the pipeline below it.
CollectiveTerms tree_terms(Bytes message, const GroupLinks& links, const Protocol& protocol) {
  const double n = links.place.ranks, domains = links.place.domains;
  const double levels = std::log2(domains);
  const BytesPerSecond bus = few_ranks(links, kFewRanksReduce) * links.bus_bandwidth();
  Seconds wire = 2.0 * (n - 1.0) / n * message / (domains > 1.0 ? links.fabric : bus);
  if (domains > 1.0) {
    const Seconds across =
        2.0 * (domains - 1.0) / domains * message / (links.ring_share * links.network);
    wire = (links.place.ranks_per_domain > 1 ? std::max(wire, across) : across) +
           2.0 * levels * std::min(message, kTreeFill) / bus;
  }
  const Seconds alpha =
      protocol.base + hops(links, protocol, 2.0 * (n / domains - 1.0), 2.0 * levels);
  return terms_of(CollectiveRoute::Tree, protocol, alpha,
                  wire / (kTreeBandwidth * protocol.bandwidth));
}

// Each of `rounds` phases goes around the ranks of a domain and halves or doubles its way over the
// domains.
CollectiveTerms hierarchical_terms(double rounds, Bytes message, const GroupLinks& links,
                                   const Protocol& protocol) {
  const double inside = links.place.ranks_per_domain, domains = links.place.domains;
  const Bytes near = (inside - 1.0) / inside * message, far = (domains - 1.0) / domains * message;
  const Seconds hop = hops(links, protocol, inside - 1.0, std::log2(domains));
  const Seconds round =
      hop + near / (protocol.bandwidth * links.fabric) + far / (protocol.bandwidth * links.network);
  return {.route = CollectiveRoute::Hierarchical,
          .protocol = protocol.name,
          .alpha = protocol.base + rounds * hop,
          .time = protocol.base + rounds * round};
}

bool is_hierarchical(const GroupLinks& links) {
  return links.algorithm == CollectiveAlgorithm::Hierarchical && links.place.domains > 1;
}

const CollectiveTerms& faster(const CollectiveTerms& one, const CollectiveTerms& other) {
  return other.time < one.time ? other : one;
}

CollectiveTerms all_reduce_terms(Bytes message, const GroupLinks& links) {
  CollectiveTerms best{.time = Seconds(1e300)};
  for (const Protocol& protocol : kProtocols) {
    if (is_hierarchical(links)) {
      best = faster(best, hierarchical_terms(2.0, message, links, protocol));
      continue;
    }
    if (links.algorithm != CollectiveAlgorithm::Tree)
      best = faster(best, ring_terms(2.0, message, links, protocol));
    if (links.algorithm == CollectiveAlgorithm::Auto ||
        links.algorithm == CollectiveAlgorithm::Tree)
      best = faster(best, tree_terms(message, links, protocol));
  }
  const bool one_domain = links.place.domains == 1;
  if (links.in_switch_reduction && one_domain && links.place.ranks >= kInSwitchMinRanks &&
      links.algorithm != CollectiveAlgorithm::Ring) {
    GroupLinks reduced = links;
    reduced.fabric *= kInSwitchGain;
    CollectiveTerms in_switch = ring_terms(2.0, message, reduced, kProtocols[0]);
    in_switch.route = CollectiveRoute::InSwitch;
    best = faster(best, in_switch);
  }
  return best;
}

CollectiveTerms one_round_terms(Bytes message, const GroupLinks& links) {
  CollectiveTerms best{.time = Seconds(1e300)};
  for (const Protocol& protocol : kProtocols) {
    best = faster(best, is_hierarchical(links) ? hierarchical_terms(1.0, message, links, protocol)
                                               : ring_terms(1.0, message, links, protocol));
  }
  return best;
}

CollectiveTerms all_to_all_terms(Bytes message, const GroupLinks& links) {
  const double n = links.place.ranks, inside = links.place.ranks_per_domain;
  const Bytes near = (inside - 1.0) / n * message, far = (n - inside) / n * message;
  Seconds alpha = kProtocols[0].base + links.fabric_hop,
          wire = near / (few_ranks(links, kFewRanksGather) * links.fabric);
  if (links.place.domains > 1) {
    wire = std::max(wire, far * inside / links.network);
    alpha = kProtocols[0].base + std::max(links.fabric_hop, links.network_hop) + links.all_to_all +
            (n - inside) * links.peer;
  }
  return terms_of(CollectiveRoute::Direct, kProtocols[0], alpha, wire);
}

CollectiveTerms pair_terms(Bytes message, const GroupLinks& links) {
  const bool inside = links.place.domains == 1;
  const Seconds alpha = kProtocols[0].base + (inside ? links.fabric_hop : links.network_hop);
  return terms_of(CollectiveRoute::Pair, kProtocols[0], alpha,
                  message / (inside ? links.fabric : links.network));
}

// Between processes of one host.
CollectiveTerms host_terms(CollectiveKind kind, Bytes message, const GroupLinks& links) {
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

}  // namespace

BytesPerSecond GroupLinks::bus_bandwidth() const {
  if (place.domains == 1) return fabric;
  const BytesPerSecond ring = ring_share * network;
  return place.ranks_per_domain == 1 ? ring : std::min(fabric, ring);
}

GroupLinks group_links(const Strategy& strategy, GroupKind kind, const Cluster& cluster,
                       double efficiency) {
  GroupLinks links{.place = place_group(strategy, kind, cluster)};
  const Achieved& achieved = cluster.device.achieved;
  const int domain = links.place.groups_per_domain * links.place.ranks_per_domain;
  const double nodes_per_domain = std::max(1.0, real(domain) / cluster.devices_per_node);
  const BytesPerSecond fabric = fabric_bandwidth(cluster.fabric, links.place);
  const BytesPerSecond network =
      cluster.network.node_bandwidth * nodes_per_domain / links.place.groups_per_domain;
  links.nominal = links.place.ranks_per_domain > 1 ? fabric : network;
  if (links.place.domains > 1) links.nominal = std::min(links.nominal, network);
  links.fabric = efficiency * achieved.collective_fraction * fabric;
  links.network =
      node_bandwidth(cluster, efficiency) * nodes_per_domain / links.place.groups_per_domain;
  if (links.place.domains > cluster.network.ring_domains)
    links.ring_share =
        std::pow(links.place.domains / cluster.network.ring_domains, -cluster.network.ring_decay);
  links.ring_step = cluster.network.ring_step;
  links.fabric_hop = cluster.fabric.latency;
  links.network_hop = cluster.network.latency;
  links.all_to_all = cluster.network.all_to_all_latency;
  links.peer = cluster.network.peer_latency;
  links.switched = cluster.fabric.kind == FabricKind::Switch;
  links.loopback = cluster.fabric.kind == FabricKind::Loopback;
  links.sums = cluster.fabric.sum_bandwidth;
  links.algorithm = cluster.algorithm;
  links.in_switch_reduction = cluster.fabric.in_switch_reduction;
  return links;
}

GroupLinks group_links(const Run& run, GroupKind kind) {
  return group_links(run.strategy, kind, run.cluster, run.framework.collective_efficiency);
}

CollectiveTerms collective_terms(CollectiveKind kind, Bytes message, const GroupLinks& links) {
  if (links.place.ranks <= 1 || message <= Bytes(0.0)) return {};
  if (links.loopback && links.place.domains == 1) return host_terms(kind, message, links);
  switch (kind) {
    case CollectiveKind::AllReduce: return all_reduce_terms(message, links);
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::Broadcast: return one_round_terms(message, links);
    case CollectiveKind::AllToAll: return all_to_all_terms(message, links);
    case CollectiveKind::SendRecv: return pair_terms(message, links);
  }
  return {};
}

Seconds collective_time(CollectiveKind kind, Bytes message, const GroupLinks& links) {
  return collective_terms(kind, message, links).time;
}

double bus_factor(CollectiveKind kind, int ranks) {
  if (kind == CollectiveKind::Broadcast || kind == CollectiveKind::SendRecv) return 1.0;
  return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * (real(ranks - 1) / ranks);
}

const char* name_of(CollectiveRoute route) { return kRoutes[static_cast<std::size_t>(route)]; }
const char* name_of(CollectiveProtocol protocol) {
  return kProtocolNames[static_cast<std::size_t>(protocol)];
}

namespace {

// Of so many equal places those that a token with k experts visits.
double visited(double places, int top_k) {
  return places * (1.0 - std::pow(1.0 - 1.0 / places, top_k));
}

}  // namespace

AllToAllBytes deduplicated_bytes(Bytes message, const ExpertRoute& route,
                                 const GroupPlacement& place) {
  const double ranks = place.ranks, domains = place.domains;
  const Bytes tokens = message / route.top_k;
  // Where a token's groups of experts are.
  const double allowed =
      std::min(domains, route.groups_per_token * std::max(1.0, domains / route.num_groups));
  return {.fabric = (ranks - domains) / ranks * visited(ranks, route.top_k) * tokens,
          .network = (domains - 1.0) / domains * visited(allowed, route.top_k) * tokens};
}

CollectiveTerms expert_all_to_all_terms(Bytes message, const ExpertRoute& route,
                                        const GroupLinks& links) {
  if (route.dispatch != ExpertDispatch::Deduplicated || links.place.ranks == 1)
    return collective_terms(CollectiveKind::AllToAll, message, links);
  const Seconds empty = collective_time(CollectiveKind::AllToAll, Bytes(0.0), links);
  const AllToAllBytes sent = deduplicated_bytes(message, route, links.place);
  Seconds near = sent.fabric / links.fabric;
  if (route.kernel_bandwidth.value() > 0.0)
    near = std::max(near, visited(links.place.ranks, route.top_k) / route.top_k * message /
                              route.kernel_bandwidth);
  const double sharers = links.place.ranks_per_domain;
  const Seconds slower =
      links.place.domains == 1 ? near : std::max(near, sharers * sent.network / links.network);
  return {.route = CollectiveRoute::Deduplicated, .alpha = empty, .time = empty + slower};
}

Seconds expert_all_to_all_time(Bytes message, const ExpertRoute& route, const GroupLinks& links) {
  return expert_all_to_all_terms(message, route, links).time;
}

}  // namespace llmsim::sim
