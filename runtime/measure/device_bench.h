// Times what belongs to a device and to no operator of a model: copies by size, copies from and to
// the host, the launch of an empty kernel, random masks of dropout, and kernels that only some
// libraries have (fused attention, fp8 GEMMs, fused and foreach AdamW, captured graphs).
//
// Records as kernel_bench.h, with kinds "stream_copy", "host_copy", "launch", "dropout",
// "library_attention", "library_gemm", "fp8_quantise", "optimizer_form", "graph", "sustained_gemm".
// `moved_bytes` of a copy counts what is read and what is written.
//
//   library_attention  "attention": "flash", "efficient", "cudnn"; "pass"; causal, m = n tokens of
//                      a sequence, "heads" of k values, "kv_heads" keys, batch of sequences and
//                      heads; FLOPs of the half that is not masked, 2 b a s^2 d forward, 5/2 of it
//                      backward
//   library_gemm       "dtype": "bf16", "fp16", "tf32", "fp8" (e4m3, one scale a tensor); m, n, k;
//                      "form": "forward", "dgrad", "wgrad" (rows that are summed over come first);
//                      "data": "normal" or "zeros", which need less power
//   sustained_gemm     one GEMM again and again: "burst_s" of the first half second, "median_s" of
//                      the last half of the time
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

struct DeviceLimits {
  std::vector<std::int64_t> copies;  // sizes
  sim::Seconds sustained{};          // that the sustained GEMM runs
  sim::Seconds longest{};            // of one call
};

// What this libtorch or device lacks is not in the list.
std::vector<DeviceMeasurement> device_measurements(c10::Device device, const DeviceLimits& limits);

}  // namespace llmsim::runtime
