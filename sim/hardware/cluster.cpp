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

void improve_matrix_units(Cluster& cluster, double factor) {
  for (FlopsPerSecond& peak : cluster.device.matrix_peak) peak = factor * peak;
  cluster.device.vector_peak = factor * cluster.device.vector_peak;
}

void improve_fabric(Cluster& cluster, double factor) {
  Fabric& fabric = cluster.fabric;
  fabric.device_bandwidth = factor * fabric.device_bandwidth;
  fabric.pair_bandwidth = factor * fabric.pair_bandwidth;
  fabric.package_bandwidth = factor * fabric.package_bandwidth;
}

void improve_network(Cluster& cluster, double factor) {
  cluster.network.node_bandwidth = factor * cluster.network.node_bandwidth;
  cluster.network.socket_bandwidth = factor * cluster.network.socket_bandwidth;
}

void improve_kernels(Cluster& cluster, double factor) {
  Achieved& achieved = cluster.device.achieved;
  achieved.kernel_time = achieved.kernel_time / factor;
  for (GemmCoefficients& gemm : achieved.gemm) gemm.kernel_time = gemm.kernel_time / factor;
  achieved.host_call_factor /= factor;
}

void improve_host_link(Cluster& cluster, double factor) {
  cluster.device.host_bandwidth = factor * cluster.device.host_bandwidth;
  cluster.device.host_memory_bandwidth = factor * cluster.device.host_memory_bandwidth;
}

constexpr std::array<HardwareChange, 8> kChanges{{
    {"matrix units", improve_matrix_units},
    {"memory bandwidth",
     [](Cluster& cluster, double factor) {
       cluster.device.memory_bandwidth = factor * cluster.device.memory_bandwidth;
     }},
    {"memory",
     [](Cluster& cluster, double factor) {
       cluster.device.memory = factor * cluster.device.memory;
       cluster.device.usable_memory = factor * cluster.device.usable_memory;
     }},
    {"links in a node", improve_fabric},
    {"network", improve_network},
    {"latency",
     [](Cluster& cluster, double factor) {
       cluster.fabric.latency = cluster.fabric.latency / factor;
       for (Seconds* latency : {&cluster.network.latency, &cluster.network.all_to_all_latency,
                                &cluster.network.peer_latency, &cluster.network.ring_step})
         *latency = *latency / factor;
     }},
    {"kernels", improve_kernels},
    {"host link", improve_host_link},
}};

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

std::span<const HardwareChange> hardware_changes() { return kChanges; }

}  // namespace llmsim::sim
