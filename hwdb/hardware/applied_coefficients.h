// Coefficients of a device and of a system, from the rows of the database: those of the devices
// that it is like first, so that its own win, and which row each value comes from.
//
// Private to hwdb.
#pragma once

#include <map>
#include <string>

#include "hwdb/hardware/hardware_record.h"
#include "sim/hardware/cluster.h"

namespace llmsim::hwdb {

using CoefficientSources = std::map<std::string, Coefficient>;  // by key: the row that set it

void apply_coefficients(const Database& database, HardwareKind kind, const HardwareRecord& record,
                        sim::Cluster& cluster, CoefficientSources& sources);

// The clock of a device whose GEMMs are taken from the same chip under another power limit
// (sim/hardware/device.h), unless it has a clock of its own.
void limit_power(const Database& database, const HardwareRecord& record, sim::Cluster& cluster,
                 CoefficientSources& sources);

// Shares of peaks that devices reach are carried from the one that a device is like.  From one
// generation to the next they changed by this much (root mean square of the logarithm of what GEMMs
// reach for long, over six generations of which both are measured: V100, A100, H100, B200; MI250X,
// MI300X, MI355X; Gaudi 2 and 3): the error of a device that is announced, of which nothing is.
inline constexpr double kGenerationError = 0.26;
void widen_announced(const HardwareRecord& record, sim::Cluster& cluster,
                     CoefficientSources& sources);

// Those of links, or all others.  Attention kernels without a row of their own are noted once,
// under the key of all kernels.
void note_coefficients(const sim::Cluster& cluster, const CoefficientSources& sources, bool links,
                       Ledger& ledger);

}  // namespace llmsim::hwdb
