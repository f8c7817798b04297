#include "sim/hardware/device.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace llmsim::sim {
namespace {

constexpr auto kKernels = in_order<AttentionKernel>(
    {"flash-1", "flash-triton", "flash-2", "flash-3", "flash-4", "cudnn", "composable-kernel",
     "aotriton", "aotriton-first", "splash", "blockwise", "blockwise-fp32"});

constexpr std::array<const char*, kNumMemoryBoundKernels> kMemoryBoundKernels{
    "layer_norm",    "rms_norm",         "softmax",
    "gelu",          "gated_activation", "rotary",
    "add",           "column_sum",       "copy",
    "lookup",        "cross_entropy",    "chunked_cross_entropy",
    "cast",          "optimizer",        "square_sum",
    "scale",         "expert_choice",    "row_move",
    "weighted_sum",  "conv1d",           "scan",
    "selective_scan"};

}  // namespace

NameTable<AttentionKernel> name_table(AttentionKernel) { return kKernels; }

const char* name_of(MemoryBoundKernel kernel) {
  return kMemoryBoundKernels[static_cast<std::size_t>(kernel)];
}

std::string supported_formats(const Device& device) {
  std::string names;
  for (int i = 0; i < kNumDTypes; ++i) {
    if (device.matrix_peak[static_cast<std::size_t>(i)] <= FlopsPerSecond(0.0)) continue;
    if (!names.empty()) names += ", ";
    names += name_of(static_cast<DType>(i));
  }
  return names;
}

FlopsPerSecond Device::peak(DType dtype) const {
  const FlopsPerSecond direct = matrix_peak[static_cast<std::size_t>(dtype)];
  if (direct > FlopsPerSecond(0.0)) return direct;
  if (dtype == DType::Tf32) return peak(DType::Fp32);
  if (dtype == DType::Fp32 && vector_peak > FlopsPerSecond(0.0)) return vector_peak;
  const std::string formats = supported_formats(*this);
  if (formats.empty())
    throw Error(id +
                " has no known rate in any format; `llmsim hardware add` stores one of your own");
  throw Error(id + " cannot multiply in " + name_of(dtype) + "; it supports " + formats);
}

double power_limited_clock(double clock, const PowerLimit& device, const PowerLimit& like) {
  const double power = device.watts / like.watts * (like.peak / device.peak);
  return std::min(1.0, clock * std::pow(power, kPowerExponent));
}

}  // namespace llmsim::sim
