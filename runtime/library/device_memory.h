// The most bytes that tensors held since a reset, and that their allocator took from the device.
//
// On the CPU the counted allocators know the first (memory_meter.h), and nothing is reserved.  On accelerators the caching
// allocator knows both; asking it needs the CUDA headers at build time, without them there are no figures.
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Device.h>

namespace llmsim::runtime {

struct PeakMemory {
  std::int64_t allocated = 0;
  std::optional<std::int64_t> reserved = {};
};

std::optional<PeakMemory> peak_memory(c10::Device device);

void reset_peak_memory(c10::Device device);

}  // namespace llmsim::runtime
