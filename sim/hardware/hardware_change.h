// One property of a cluster made better: what an upgrade would be worth.
#pragma once

#include <span>

#include "sim/hardware/cluster.h"

namespace llmsim::sim {

struct HardwareChange {
  const char* name;
  void (*improve)(Cluster&, double factor);  // rates times it, latencies over it
};

//   matrix units      peaks of all formats, and of the vector units, that have the same clock
//   memory bandwidth  of the device
//   memory            nominal and usable
//   links in a node   bandwidths of the scale-up fabric
//   network           bandwidth of a node
//   latency           of a hop, in the node and between nodes
//   kernels           time of kernels with almost nothing to do, and of the host's calls
//   host link         of a device, and its share of the host's memory bandwidth
std::span<const HardwareChange> hardware_changes();

}  // namespace llmsim::sim
