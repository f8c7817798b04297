#include "sim/hardware/cluster.h"

#include <array>

namespace llmsim::sim {
namespace {

constexpr auto kTransports = in_order<Transport>({"rdma", "sockets"});

constexpr auto kAlgorithms =
    in_order<CollectiveAlgorithm>({"auto", "ring", "tree", "hierarchical"});

template <class... Rates>
void multiply(double factor, Rates&... rates) {
  ((rates = factor * rates), ...);
}

template <class... Times>
void divide(double factor, Times&... times) {
  ((times = times / factor), ...);
}

constexpr std::array<HardwareChange, 8> kChanges{{
    {"matrix units",
     [](Cluster& cluster, double factor) {
       for (FlopsPerSecond& peak : cluster.device.matrix_peak) multiply(factor, peak);
       multiply(factor, cluster.device.vector_peak);
     }},
    {"memory bandwidth",
     [](Cluster& cluster, double factor) { multiply(factor, cluster.device.memory_bandwidth); }},
    {"memory",
     [](Cluster& cluster, double factor) {
       multiply(factor, cluster.device.memory, cluster.device.usable_memory);
     }},
    {"links in a node",
     [](Cluster& cluster, double factor) {
       Fabric& fabric = cluster.fabric;
       multiply(factor, fabric.device_bandwidth, fabric.pair_bandwidth, fabric.package_bandwidth);
     }},
    {"network",
     [](Cluster& cluster, double factor) {
       multiply(factor, cluster.network.node_bandwidth, cluster.network.socket_bandwidth);
     }},
    {"latency",
     [](Cluster& cluster, double factor) {
       Network& network = cluster.network;
       divide(factor, cluster.fabric.latency, network.latency, network.all_to_all_latency,
              network.peer_latency, network.ring_step);
     }},
    {"kernels",
     [](Cluster& cluster, double factor) {
       Achieved& achieved = cluster.device.achieved;
       for (GemmCoefficients& gemm : achieved.gemm) divide(factor, gemm.kernel_time);
       divide(factor, achieved.kernel_time, achieved.host_call_factor);
     }},
    {"host link",
     [](Cluster& cluster, double factor) {
       multiply(factor, cluster.device.host_bandwidth, cluster.device.host_memory_bandwidth);
     }},
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
