#include "runtime/library/device_memory.h"

#include "runtime/library/memory_meter.h"

#if LLMSIM_HAVE_CUDA_HEADERS
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace llmsim::runtime {
namespace {

#if LLMSIM_HAVE_CUDA_HEADERS

std::optional<PeakMemory> accelerator_peak(c10::Device device) {
  const auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return PeakMemory{.allocated = statistics.allocated_bytes[0].peak, .reserved = statistics.reserved_bytes[0].peak};
}

void reset_accelerator_peak(c10::Device device) { c10::cuda::CUDACachingAllocator::resetPeakStats(device.index()); }

#else

std::optional<PeakMemory> accelerator_peak(c10::Device) { return std::nullopt; }

void reset_accelerator_peak(c10::Device) {}

#endif

}  // namespace

std::optional<PeakMemory> peak_memory(c10::Device device) {
  if (device.is_cuda()) return accelerator_peak(device);
  return PeakMemory{.allocated = held_bytes(device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu).peak};
}

void reset_peak_memory(c10::Device device) {
  if (device.is_cuda()) return reset_accelerator_peak(device);
  reset_peak(device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu);
}

}  // namespace llmsim::runtime
