// From the rows of the database to the hardware that the simulator computes with.
//
// A device's peaks and sizes come from its record; what the record leaves open is assumed, and
// marked as assumed.  Coefficients come from the device's own rows, then from those of the device
// that it is "like", and so on; a coefficient without a row keeps the default of sim.  Coefficients
// of the system (its network may reach a third of its nominal rate) override those of the device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwdb/store/database.h"
#include "sim/hardware/cluster.h"
#include "sim/run.h"

namespace llmsim::hwdb {

struct DeviceRecord {
  sim::Device device;
  // Every value of the device: "device.h100_sxm.memory_bandwidth", "3.35 TB/s", DataSheet, ...
  std::vector<sim::Fact> facts;
};

struct ClusterRecord {
  sim::Cluster cluster;
  std::vector<sim::Fact> facts;  // of the device, the fabric and the network
};

// What the user says about a cluster beyond its name.
struct ClusterOverrides {
  std::optional<std::string> accelerator;  // where the cluster is named by a system
  std::optional<int> devices_per_node;
  std::optional<sim::BytesPerSecond> inter_node_per_device;  // one direction
};

// The device of an id or alias.  Throws Error naming the nearest known one.
DeviceRecord device(const Database& database, std::string_view id_or_alias);

// `num_devices` devices of a system, or of an accelerator in its usual nodes (from the system that
// its record names as default; their network is then an assumption).  More devices than the system
// has, and devices that it does not have, are taken and noted in the cluster.  Throws Error for an
// unknown name and for numbers below 1.
ClusterRecord cluster(const Database& database, std::string_view system_or_accelerator,
                      int num_devices, const ClusterOverrides& overrides = {});

}  // namespace llmsim::hwdb
