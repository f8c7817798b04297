// What the processes of one host leave each other.
//
// With n of them at work (FabricKind::Loopback), each runs GEMMs and attention at 1 / (1 + (n - 1) x) of the rate that it
// reaches alone, and kernels that stream through memory at 1 / (1 + (n - 1) y): x and y are measured by doing both alone and
// together (HostSharing::gemms, streaming).  A last-level cache of C bytes holds C / n of each.
#pragma once

#include "sim/cost/streaming.h"
#include "sim/hardware/cluster.h"

namespace llmsim::sim {

// Of one process, relative to alone; all of it where the devices do not share a host.
struct HostShare {
  double gemms = 1.0;
  double streaming = 1.0;
  double cache = 1.0;
};

HostShare host_share(const Cluster& cluster);

// The streaming kernels of one process while the others do the same.
StreamingMachine streaming_machine(const Cluster& cluster, const StreamingForms& forms);

}  // namespace llmsim::sim
