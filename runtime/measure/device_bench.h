// Times what belongs to a device and to no operator of a model: copies by size, copies from and to the host, the launch of an
// empty kernel, random masks of dropout, and kernels that only some libraries have (fused attention, fp8 products, fused and
// foreach AdamW, captured graphs).
//
// Records as kernel_bench.h, with kinds "stream_copy", "host_copy", "launch", "dropout", "library_attention", "fp8_quantise",
// "fp8_product", "optimizer_form", "graph".  `moved_bytes` of a copy counts what is read and what is written.
#pragma once

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

// Copies grow to `largest`.  What this libtorch or device lacks is not in the list.
std::vector<DeviceMeasurement> device_measurements(c10::Device device, sim::Bytes largest);

}  // namespace llmsim::runtime
