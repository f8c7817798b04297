#include "sim/hardware/hardware_change.h"

#include <array>

namespace llmsim::sim {
namespace {

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
       cluster.network.latency = cluster.network.latency / factor;
     }},
    {"kernels", improve_kernels},
    {"host link", improve_host_link},
}};

}  // namespace

std::span<const HardwareChange> hardware_changes() { return kChanges; }

}  // namespace llmsim::sim
