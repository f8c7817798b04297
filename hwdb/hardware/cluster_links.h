// The nodes of a cluster and the links inside and between them: of a named system, or of the usual
// nodes of an accelerator, whose network is then an assumption.
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string_view>

#include "hwdb/hardware/hardware.h"
#include "hwdb/hardware/hardware_record.h"

namespace llmsim::hwdb {

// A named system, or the usual one of the accelerator; none where neither is known.
struct Home {
  std::optional<HardwareRecord> record;
  bool named = false;
};

// The system of that name, if it is one.
Home home_of(const Database& database, std::string_view name);

// The usual network of an accelerator is taken where a named system does not describe its own.
Home network_home(const Database& database, const Home& home, const HardwareRecord& accelerator);

// Devices of a node.
Sourced nodes_of(const Home& home, const HardwareRecord& accelerator,
                 const ClusterOverrides& overrides);

// Devices of each of the fewest nodes that have as many each, at most `per_node`: a launcher starts
// as many processes on every node, so that 12 devices of nodes of 8 are 2 nodes of 6.  What was
// given stays, and so do numbers that take more than twice the nodes.
Sourced alike_nodes(Sourced per_node, int num_devices);

// Notes where the run needs more than the system has: a larger copy of it, or one with other
// devices, is simulated all the same.
void note_beyond_the_system(const HardwareRecord& system, sim::Cluster& cluster);

// Each notes what it sets.  Latencies of the fabric, which are coefficients, stay.
void set_fabric(sim::Cluster& cluster, const Home& home, const HardwareRecord& accelerator,
                Ledger& ledger);
void set_network(sim::Cluster& cluster, const Home& home, const HardwareRecord& accelerator,
                 const ClusterOverrides& overrides, Ledger& ledger);
// Does nothing without a named system: a device that is named alone may sit in any host.
void set_host(sim::Cluster& cluster, const Home& home, Ledger& ledger);

}  // namespace llmsim::hwdb
