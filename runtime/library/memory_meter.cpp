#include "runtime/library/memory_meter.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#if LLMSIM_HAVE_CUDA_HEADERS
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace llmsim::runtime {
namespace {

// Vector loads of kernels want 64-byte alignment; the header in front of a block holds its size and
// keeps that.
constexpr std::size_t kAlignment = 64;
// Among allocators of one device the highest priority wins; the library's own have 0.
constexpr std::uint8_t kPriority = 255;

struct Counter {
  std::atomic<std::int64_t> now{0};
  std::atomic<std::int64_t> peak{0};

  void add(std::int64_t size) {
    const std::int64_t held = now.fetch_add(size) + size;
    std::int64_t seen = peak.load();
    while (held > seen && !peak.compare_exchange_weak(seen, held)) {
    }
  }
};

Counter& counter(MeteredDevice device, Place place) {
  static Counter counters[2][2];
  return counters[static_cast<int>(device)][static_cast<int>(place)];
}

thread_local Place current_place = Place::Device;

// What a block was counted as.
struct Label {
  std::int64_t size;
  Counter* counter;

  Label(MeteredDevice device, std::size_t bytes)
      : size(static_cast<std::int64_t>(bytes)), counter(&runtime::counter(device, current_place)) {
    counter->add(size);
  }
};
static_assert(sizeof(Label) <= kAlignment);

std::size_t rounded_up(std::size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

void free_block(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kAlignment;
  const Label& label = *reinterpret_cast<Label*>(block);
  label.counter->add(-label.size);
  std::free(block);
}

void free_label(void* context) {
  auto* label = static_cast<Label*>(context);
  label->counter->add(-label->size);
  delete label;
}

// Both forms of the virtual functions whose signatures differ between releases of the library; one
// of each overrides.
class CpuAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) { return block(size); }
  c10::DataPtr allocate(std::size_t size) const { return block(size); }
  c10::DeleterFnPtr raw_deleter() const { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t size) const {
    std::memcpy(to, from, size);
  }

 private:
  static c10::DataPtr block(std::size_t size) {
    if (size == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::DeviceType::CPU)};
    auto* memory =
        static_cast<char*>(std::aligned_alloc(kAlignment, kAlignment + rounded_up(size)));
    TORCH_CHECK(memory != nullptr, "out of memory: ", size, " bytes");
    new (memory) Label(MeteredDevice::Cpu, size);
    void* data = memory + kAlignment;
    // Some kernels demand that context and data be equal.
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
};

class MetaAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) { return nothing(size); }
  c10::DataPtr allocate(std::size_t size) const { return nothing(size); }
  c10::DeleterFnPtr raw_deleter() const { return &free_label; }
  void copy_data(void*, const void*, std::size_t) const {}

 private:
  static c10::DataPtr nothing(std::size_t size) {
    return {nullptr, new Label(MeteredDevice::Meta, size), &free_label,
            c10::Device(c10::DeviceType::Meta)};
  }
};

#if LLMSIM_HAVE_CUDA_HEADERS

std::optional<PeakMemory> accelerator_peak(c10::Device device) {
  const auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return PeakMemory{.allocated = statistics.allocated_bytes[0].peak,
                    .reserved = statistics.reserved_bytes[0].peak,
                    .requested = statistics.requested_bytes[0].peak};
}

void reset_accelerator_peak(c10::Device device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

void empty_accelerator_cache() { c10::cuda::CUDACachingAllocator::emptyCache(); }

#else

std::optional<PeakMemory> accelerator_peak(c10::Device) { return std::nullopt; }

void reset_accelerator_peak(c10::Device) {}

void empty_accelerator_cache() {}

#endif

}  // namespace

void install_memory_meter() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CpuAllocator cpu;
    static MetaAllocator meta;
    c10::SetCPUAllocator(&cpu, kPriority);
    c10::SetAllocator(c10::DeviceType::Meta, &meta, kPriority);
  });
}

OnHost::OnHost() : before_(current_place) { current_place = Place::Host; }
OnHost::~OnHost() { current_place = before_; }

HeldBytes held_bytes(MeteredDevice device, Place place) {
  const Counter& held = counter(device, place);
  return {.now = held.now.load(), .peak = held.peak.load()};
}

void reset_peak(MeteredDevice device) {
  for (const Place place : {Place::Device, Place::Host}) {
    Counter& held = counter(device, place);
    held.peak.store(held.now.load());
  }
}

std::optional<PeakMemory> peak_memory(c10::Device device) {
  if (device.is_cuda()) return accelerator_peak(device);
  return PeakMemory{
      .allocated = held_bytes(device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu).peak};
}

void reset_peak_memory(c10::Device device) {
  if (device.is_cuda()) return reset_accelerator_peak(device);
  reset_peak(device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu);
}

void empty_cache(c10::Device device) {
  if (device.is_cuda()) empty_accelerator_cache();
}

at::Tensor copied_to_host(const at::Tensor& tensor) {
  const OnHost placed;
  at::TensorOptions options = tensor.options();
  if (tensor.is_cuda()) options = options.device(at::kCPU).pinned_memory(true);
  return at::empty(tensor.sizes(), options).copy_(tensor);
}

at::Tensor copied_to_device(const at::Tensor& tensor, c10::Device device) {
  return at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).device(device))
      .copy_(tensor);
}

}  // namespace llmsim::runtime
