#include "sim/hardware/cluster.h"

namespace llmsim::sim {

const char* name_of(FabricKind kind) {
  switch (kind) {
    case FabricKind::Switch: return "switch";
    case FabricKind::Mesh: return "mesh";
    case FabricKind::Paired: return "paired";
    case FabricKind::Torus: return "torus";
    case FabricKind::Host: return "host";
    case FabricKind::Loopback: return "loopback";
  }
  return "";
}

const char* name_of(Transport transport) { return transport == Transport::Rdma ? "rdma" : "sockets"; }

const char* name_of(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::Auto: return "auto";
    case CollectiveAlgorithm::Ring: return "ring";
    case CollectiveAlgorithm::Tree: return "tree";
    case CollectiveAlgorithm::Hierarchical: return "hierarchical";
  }
  return "";
}

std::optional<Transport> transport_named(const std::string& name) {
  for (const Transport transport : {Transport::Rdma, Transport::Sockets}) {
    if (name == name_of(transport)) return transport;
  }
  return std::nullopt;
}

std::optional<CollectiveAlgorithm> algorithm_named(const std::string& name) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::Auto, CollectiveAlgorithm::Ring, CollectiveAlgorithm::Tree, CollectiveAlgorithm::Hierarchical}) {
    if (name == name_of(algorithm)) return algorithm;
  }
  return std::nullopt;
}

// Devices of a node take different switches first.
BytesPerSecond Cluster::host_link_share() const {
  const int links = std::max(1, devices_per_node / std::max(1, devices_per_host_link));
  return device.host_bandwidth / ((devices_on_a_node() + links - 1) / links);
}

// Devices that stay idle leave their share to the others.
BytesPerSecond Cluster::host_memory_share() const {
  return device.host_memory_bandwidth * devices_per_node / devices_on_a_node();
}

}  // namespace llmsim::sim
