// Times what belongs to a device and to no operator of a model: copies by size, copies from and to
// the host, the launch of an empty kernel, random masks of dropout, and kernels that only some
// libraries have (fused attention, fp8 GEMMs, fused and foreach AdamW, captured graphs).
//
// Records as kernel_bench.h, with kinds "stream_copy", "host_copy", "launch", "dropout",
// "library_attention", "fp8_quantise", "fp8_gemm", "optimizer_form", "graph".  `moved_bytes` of a
// copy counts what is read and what is written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/statistics.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

struct DeviceMeasurement {
  std::string key;
  std::function<nlohmann::json(const RepeatOptions&)> measure;
};

struct CopyLimits {
  sim::Bytes cache{};    // the last-level cache, 0: unknown
  sim::Bytes usual{};    // one buffer of the largest copy where the cache asks for no larger one
  sim::Bytes buffers{};  // what both buffers of a copy may take
};

// Sizes of one buffer, growing: 16 KiB in steps of four up to `usual` and, where none of these
// moves sim::kCopyOfMemory caches, one that does.  Where that is more than the buffers may take,
// the last one is the largest that fits.
std::vector<std::int64_t> copy_sizes(const CopyLimits& limits);

// Whether the sizes measure memory behind that cache.
bool leave_cache(const std::vector<std::int64_t>& sizes, sim::Bytes cache);

// Copies have `sizes`.  What this libtorch or device lacks is not in the list.
std::vector<DeviceMeasurement> device_measurements(c10::Device device,
                                                   const std::vector<std::int64_t>& sizes);

}  // namespace llmsim::runtime
