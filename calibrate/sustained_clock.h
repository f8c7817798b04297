// The clock that a device keeps through a training step, over that of the short GEMMs to which its
// curve was fitted.
//
// Devices with the same chip: under a limit of W watts all sustain a rate of c W^a
// (sim/hardware/device.h), and their clock is that over the rate of their short GEMMs, which differ
// by the limit too,
//
//   clock = min(1, c W^a / rate)
//   ln c  = mean of ln(ratio rate / W^a) over all sources and devices
//
// each for 16-bit formats and for 8-bit ones, which draw less power at the same clock, from the
// sources that ran them.
//
// ratio: a source's rate of long-running GEMMs over that of the fitted ones.  Sources differ by
// more than their own errors, so the error of the mean comes from their spread, and is at least
// 3 %.  Ours.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measured_kernels.h"
#include "hwdb/store/database.h"
#include "sim/cost/kernels.h"

namespace llmsim::calibrate {

// What the fits found, by device and format.
using FittedMachines = std::map<GemmsOf, sim::GemmMachine>;

struct SustainedClocks {
  std::vector<double> clocks;  // by device
  double error = 0.0;          // of each
  std::string fitted_from;     // every source with its ratio
};

// Of GEMMs in a format, Bf16 (and Fp16 sources) or Fp8, on devices with one chip whose GEMMs in it
// are fitted; none where no source ran long.
std::optional<SustainedClocks> sustained_clocks(const hwdb::Database& database,
                                                const std::vector<std::string>& ids,
                                                const FittedMachines& fitted, sim::DType format);

}  // namespace llmsim::calibrate
