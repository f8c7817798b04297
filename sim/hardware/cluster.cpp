#include "sim/hardware/cluster.h"

#include <array>

namespace llmsim::sim {
namespace {

constexpr Named<Transport> kTransports[] = {{Transport::Rdma, "rdma"},
                                            {Transport::Sockets, "sockets"}};

constexpr Named<CollectiveAlgorithm> kAlgorithms[] = {
    {CollectiveAlgorithm::Auto, "auto"},
    {CollectiveAlgorithm::Ring, "ring"},
    {CollectiveAlgorithm::Tree, "tree"},
    {CollectiveAlgorithm::Hierarchical, "hierarchical"}};

}  // namespace

const char* name_of(FabricKind kind) {
  constexpr std::array<const char*, 6> names{"switch", "mesh", "paired",
                                             "torus",  "host", "loopback"};
  return names[static_cast<std::size_t>(kind)];
}

NameTable<Transport> name_table(Transport) { return kTransports; }
NameTable<CollectiveAlgorithm> name_table(CollectiveAlgorithm) { return kAlgorithms; }

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
