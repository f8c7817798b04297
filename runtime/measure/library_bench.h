// Kernels that a library brings along, on an accelerator: GEMMs of every format in the shapes of
// real models, fused attention, one GEMM again and again until the card is hot.
//
// Records as device_bench.h lists them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <nlohmann/json.hpp>

#include "runtime/measure/device_bench.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

// A list of measurements that is being made.
struct DeviceListing {
  using Prepare = std::function<std::function<void()>()>;  // makes operands, gives the call

  c10::Device device;
  std::vector<DeviceMeasurement> list{};

  // One with a record of its own, and one that moves bytes in some kernels.
  void add(const nlohmann::json& described, Prepare prepare);
  void add(const std::string& kind, const std::string& name, double moved_bytes, Prepare prepare,
           int times = 1);

  bool on_accelerator() const { return device.is_cuda(); }
  at::TensorOptions fp32() const { return at::TensorOptions(at::kFloat).device(device); }
};

// "library_gemm", and on devices that have them "fp8_quantise".
void add_library_gemms(DeviceListing& all);

// "library_attention" that takes no longer than this.
void add_library_attention(DeviceListing& all, sim::Seconds longest);

// "sustained_gemm" for this long.
void add_sustained(DeviceListing& all, sim::Seconds length);

}  // namespace llmsim::runtime
