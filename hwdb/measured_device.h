// A measured device as a document of one's own hardware (user_hardware.h).
#pragma once

#include <string>
#include <vector>

#include "hwdb/database.h"
#include "sim/hardware/cluster.h"

namespace llmsim::hwdb {

// What joins the ranks of one node; a bandwidth of 0 is unknown.
struct MeasuredFabric {
  sim::FabricKind kind = sim::FabricKind::Host;
  int devices = 1;
  sim::BytesPerSecond bandwidth{};
};

// JSON with the device as an accelerator and these coefficients of it.  `source` says what measured it.
std::string hardware_document(const sim::Device& device, const MeasuredFabric& fabric,
                              const std::vector<Coefficient>& coefficients, const std::string& source);

}  // namespace llmsim::hwdb
