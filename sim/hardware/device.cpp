#include "sim/hardware/device.h"

#include "sim/base/error.h"

namespace llmsim::sim {

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
  if (formats.empty()) throw Error(id + " has no known rate in any format; `llmsim hardware add` stores one of your own");
  throw Error(id + " cannot multiply in " + name_of(dtype) + "; it supports " + formats);
}

}  // namespace llmsim::sim
