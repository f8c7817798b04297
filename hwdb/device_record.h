// A device's peaks, sizes and price from its record, and what was measured on it; what neither says is assumed, and noted so.
//
// Private to hwdb.
#pragma once

#include "hwdb/hardware_record.h"
#include "sim/hardware/device.h"

namespace llmsim::hwdb {

// Without coefficients; notes every value but the host link's, which a coefficient may replace.
sim::Device recorded_device(const Database& database, const HardwareRecord& record, Ledger& ledger);

// Mean of the measured host-to-device rates, the practical rate of the record, or a part of the theoretical one.
Sourced host_bandwidth(const Database& database, const HardwareRecord& record);

}  // namespace llmsim::hwdb
