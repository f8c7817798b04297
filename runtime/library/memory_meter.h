// Counts the bytes that tensors hold, exactly: every allocation of the tensor library's CPU and
// meta allocators passes through.
//
// On the CPU it counts what was asked for, not what malloc rounds it to.  On the meta device
// tensors have sizes and no data, so a step of any size can be counted on any machine.  Memory that
// kernels take by other means (a BLAS's own buffers) is not seen.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace llmsim::runtime {

// Bytes in tensors of one device kind, of all threads of the process.
struct HeldBytes {
  std::int64_t now = 0;
  std::int64_t peak = 0;  // since the last reset
};

enum class MeteredDevice { Cpu, Meta };

// Offloaded tensors live in the memory of the host.  Where the device computes in that memory
// itself, or has none, they are distinguished by who requested them.
enum class Place { Device, Host };

// While it lives, what this thread allocates is the host's.
class OnHost {
 public:
  OnHost();
  ~OnHost();
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;

 private:
  Place before_;
};

// Replaces both allocators for the rest of the process; later calls do nothing.  Tensors made
// before are not counted.
void install_memory_meter();

HeldBytes held_bytes(MeteredDevice device, Place place = Place::Device);

// The peaks begin again at what is held now.
void reset_peak(MeteredDevice device);

// The most bytes that tensors held since a reset, and that their allocator took from the device.
//
// On the CPU the counted allocators know the first (memory_meter.h), and nothing is reserved.  On
// accelerators the caching allocator knows both; asking it needs the CUDA headers at build time,
// without them nothing is measured.

struct PeakMemory {
  std::int64_t allocated = 0;  // in the allocator's blocks, multiples of 512 bytes on accelerators
  std::optional<std::int64_t> reserved = {};
  std::optional<std::int64_t> requested = {};  // as tensors asked for it
};

std::optional<PeakMemory> peak_memory(c10::Device device);

void reset_peak_memory(c10::Device device);

// Gives what the caching allocator keeps of freed tensors back to the device; nothing on the CPU.
void empty_cache(c10::Device device);

// Tensors that go to the memory of the host and come back.
//
// Of a GPU they are copied to pinned memory.  A CPU's memory is the host's: they are copied all the
// same and counted separately (memory_meter.h), and so they are on the meta device.

at::Tensor copied_to_host(const at::Tensor& tensor);
at::Tensor copied_to_device(const at::Tensor& tensor, c10::Device device);

}  // namespace llmsim::runtime
