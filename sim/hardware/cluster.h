// Devices joined by links: the node's scale-up fabric and the network between nodes.
#pragma once

#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/hardware/device.h"

namespace llmsim::sim {

// Shape of the fabric inside a node (or rack domain).
//   Switch  any pair can use a device's whole bandwidth (NVSwitch)
//   Mesh    one link per pair: a group of n devices uses n - 1 of the links (MI300X; V100 and A100 boards of four)
//   Paired  two devices share a package with a wide link; other neighbours are joined by narrower ones (MI250X)
//   Torus   neighbours only, wrap-around (TPU)
//   Host    through the host's PCIe
enum class FabricKind { Switch, Mesh, Paired, Torus, Host };

// "switch", "mesh", "paired", "torus", "host".
const char* name_of(FabricKind kind);

struct Fabric {
  FabricKind kind = FabricKind::Switch;
  int devices = 8;                   // devices that one domain joins
  BytesPerSecond device_bandwidth;   // one device, all links, one direction
  BytesPerSecond pair_bandwidth;     // one pair of neighbours, one direction
  BytesPerSecond package_bandwidth;  // Paired: the two devices of one package
  Seconds latency{3.4e-6};           // one hop of a collective
  bool in_switch_reduction = false;  // the switch adds (NVLS): all-reduce moves each byte once
};

// The network, as one node sees it.
struct Network {
  std::string name;
  BytesPerSecond node_bandwidth;  // injection of one node, one direction
  Seconds latency{14e-6};         // one hop of a collective
  double ring_decay = 0.0;        // a ring over D nodes reaches (D / 2)^-ring_decay of the bandwidth of one over two
};

struct Cluster {
  std::string id;  // system id, or the accelerator's where no system is named
  Device device;
  int devices_per_node = 8;
  int num_devices = 8;
  Fabric fabric;
  Network network;

  int num_nodes() const { return (num_devices + devices_per_node - 1) / devices_per_node; }
};

}  // namespace llmsim::sim
