// What a profiler recorded of one rank, as compact events: a trace of gigabytes is read in bounded
// memory, because names are stored once and host operators not at all.
//
// Times are nanoseconds on the recording clock.  Kernels have the classes of kernel_names.h by
// their names.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "hwdb/profile/kernel_names.h"
#include "sim/base/quantity.h"
#include "sim/operators/operator.h"

namespace llmsim::hwdb {

struct TimeSpan {
  std::int64_t start = 0;
  std::int64_t end = 0;

  std::int64_t length() const { return end - start; }
};

struct KernelName {
  std::string text;
  KernelClass kernels = KernelClass::Other;
  bool backward = false;  // of attention
};

// A call of a collective, as far as the trace says.
struct CollectiveCall {
  std::optional<sim::CollectiveKind> kind{};
  std::string group{};        // its name, the same on all ranks; empty: not said
  std::string description{};  // of the group: "mesh_tp", "TENSOR_MODEL_PARALLEL_GROUP"
  int ranks = 0;              // 0: not said
  sim::Bytes message{};       // nccl-tests' size; 0: not said

  bool operator==(const CollectiveCall&) const = default;
};

// Of one matrix by another, batch of them.
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;

  auto operator<=>(const GemmShape&) const = default;
};

inline constexpr std::uint32_t kNoDetail = 0xffffffff;

// One kernel or copy on the device.
struct DeviceEvent {
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::uint32_t name = 0;  // index into names
  // Index into collectives or, of a GEMM, into shapes; or none.
  std::uint32_t detail = kNoDetail;

  std::int64_t end() const { return start + duration; }
};

struct ProfileTrace {
  std::string file;
  std::optional<int> rank, world_size;
  std::vector<KernelName> names;
  std::vector<CollectiveCall> collectives;  // each distinct one
  std::vector<GemmShape> shapes;            // each distinct one
  std::deque<DeviceEvent> events;           // by start
  std::vector<TimeSpan> steps;              // as the profiler marks them, by start
  std::vector<TimeSpan> loading;            // the host waits for data
  bool predicted = false;                   // written by `llmsim trace`

  KernelClass kernels(const DeviceEvent& event) const { return names[event.name].kernels; }
};

// A trace of PyTorch's profiler (Kineto), gzipped or not, an SQLite export of Nsight Systems, or
// what `llmsim trace --operators` writes.  Throws Error that names the file: one that cannot be
// read, or has no kernel of a device.  Of several stages in one file each is a trace.
std::vector<ProfileTrace> read_profile(const std::string& path);

}  // namespace llmsim::hwdb
