// Devices joined by links: the node's scale-up fabric and the network between nodes; and upgrades
// of one property of these.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "sim/base/field.h"
#include "sim/base/quantity.h"
#include "sim/hardware/device.h"

namespace llmsim::sim {

// Shape of the fabric inside a node (or rack domain).
//   Switch  any pair can use a device's whole bandwidth (NVSwitch)
//   Mesh    one link per pair: a group of n devices uses n - 1 of the links (MI300X; V100 and A100
//           boards of four)
//   Paired  two devices of a package have a fast link; other neighbours are joined by slower ones,
//           over which n devices form n / 2 rings that share no link (MI250X)
//   Torus   neighbours only, wrap-around (TPU)
//   Host    through the host's PCIe
//   Loopback  the devices are processes of one host, which share its memory and pass messages
//             through its kernel
enum class FabricKind { Switch, Mesh, Paired, Torus, Host, Loopback };

// "switch", "mesh", "paired", "torus", "host", "loopback".
const char* name_of(FabricKind kind);

// How messages get from a device to the network ports.
//   Rdma     the adapter reads device memory: InfiniBand verbs, or libfabric through a plugin of
//            the collective library
//   Sockets  TCP through the host's kernel, however fast the adapters are
enum class Transport { Rdma, Sockets };

// How a collective goes over the ranks.  Auto: the fastest of ring and tree, as NCCL's tuner
// chooses; Hierarchical: recursive halving between nodes, rings inside them (libraries for machines
// where flat rings scale badly).
enum class CollectiveAlgorithm { Auto, Ring, Tree, Hierarchical };

// "rdma", "sockets"; "auto", "ring", "tree", "hierarchical".
NameTable<Transport> name_table(Transport);
NameTable<CollectiveAlgorithm> name_table(CollectiveAlgorithm);

struct Fabric {
  FabricKind kind = FabricKind::Switch;
  int devices = 8;                   // devices that one domain joins
  BytesPerSecond device_bandwidth;   // one device, all links, one direction
  BytesPerSecond pair_bandwidth;     // one pair of neighbours, one direction
  BytesPerSecond package_bandwidth;  // Paired: the two devices of one package
  Seconds latency{3.4e-6};           // one hop of a collective
  // Loopback: the rate at which a process adds up what it has received; 0: free.
  BytesPerSecond sum_bandwidth{};
  bool in_switch_reduction = false;  // the switch adds (NVLS): all-reduce moves each byte once
};

// The network as one node sees it.  Its oversubscription, as far as groups of several nodes see it,
// is in the achieved fraction of the bandwidth and in ring_decay.
struct Network {
  std::string name;
  BytesPerSecond node_bandwidth;  // injection of one node, one direction
  Seconds latency{14e-6};         // one hop of a collective
  // What an all-to-all over several domains takes in addition to hop and bytes: once, and for each
  // rank of another domain, to which it has a message of its own.
  Seconds all_to_all_latency{};
  Seconds peer_latency{};
  // A ring over D domains, more than ring_domains, reaches (D / ring_domains)^-ring_decay of the
  // bandwidth of one over so many.
  double ring_decay = 0.0;
  double ring_domains = 2.0;
  // A step of a ring takes at least this where its pieces wait for
  // their receiver, see sim/cost/collective.h.
  Seconds ring_step{};
  // Share of its bandwidth in the slow one of its two states; 1: it has one state.
  double slow_fraction = 1.0;
  Transport transport = Transport::Rdma;
  // Most that TCP through the kernel of one node's host carries, one direction: 1.1e9 parameters by
  // FSDP in bf16 over two nodes of LUMI went from 7500 to 9500 tokens/s per GCD with the libfabric
  // plugin.  Source: OLMo training log, 2023-04-12.
  BytesPerSecond socket_bandwidth{3.2e9};
};

struct Cluster {
  std::string id;  // system id, or the accelerator's where no system is named
  Device device;
  int devices_per_node = 8;
  int num_devices = 8;
  Fabric fabric;
  Network network;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Auto;

  int devices_per_host_link = 1;  // devices behind one PCIe switch share its link to the host
  Bytes host_memory{0.0};         // of one node; 0: unknown

  // What the named system has, where the run needs something else.
  std::optional<int> system_devices{};  // fewer than num_devices
  // The usual one of the system, which does not have the run's.
  std::optional<std::string> system_accelerator{};

  int devices_on_a_node() const { return std::min(num_devices, devices_per_node); }
  // Rate of one device's copies to the host, and of one process on host memory, while all devices
  // of the run do the same.
  BytesPerSecond host_link_share() const;
  BytesPerSecond host_memory_share() const;
  int num_nodes() const { return (num_devices + devices_per_node - 1) / devices_per_node; }
};

// One property of a cluster made better: what an upgrade would be worth.
struct HardwareChange {
  const char* name;
  void (*improve)(Cluster&, double factor);  // rates times it, latencies over it
};

//   matrix units      peaks of all formats, and of the vector units, that have the same clock
//   memory bandwidth  of the device
//   memory            nominal and usable
//   links in a node   bandwidths of the scale-up fabric
//   network           bandwidth of a node
//   latency           of a hop, in the node and between nodes, and of a ring's step
//   kernels           time of kernels with almost nothing to do, and of the host's calls
//   host link         of a device, and its share of the host's memory bandwidth
std::span<const HardwareChange> hardware_changes();

}  // namespace llmsim::sim
