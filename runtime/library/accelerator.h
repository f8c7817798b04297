// What an accelerator says of itself: its name, memory, cache and units from the runtime library of
// CUDA or HIP, its clock, power and temperature from NVML.
//
// The libraries are looked up by name when the program runs, so that one build serves machines with
// and without them; none of their headers is needed.  What a machine does not tell is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "sim/base/quantity.h"

namespace llmsim::runtime {

struct AcceleratorFacts {
  std::optional<std::string> name;  // "NVIDIA H100 80GB HBM3"
  std::optional<sim::Bytes> memory, free_memory;
  std::optional<sim::Bytes> cache;     // the last level
  std::optional<int> compute_units;    // SMs, CUs
  std::optional<std::string> driver;   // "580.159.04"
  std::optional<int> runtime_version;  // 13000 is CUDA 13.0
};

// Requires a CUDA or HIP device.
AcceleratorFacts accelerator_facts(c10::Device device);

// Readings of one moment.
struct AcceleratorState {
  std::optional<double> clock_hz;  // of the SMs
  std::optional<double> watts;
  std::optional<double> temperature;              // degrees Celsius
  std::optional<std::uint64_t> throttle_reasons;  // bits of nvmlClocksEventReasons
};
AcceleratorState accelerator_state(c10::Device device);

// The reasons of the bits for which a clock is lower than it could be: "power", "thermal", ...
std::vector<std::string> throttle_names(std::uint64_t reasons);

}  // namespace llmsim::runtime
