// A trace while it is read: names, collectives and shapes are stored once.  Private to hwdb.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "hwdb/profile/profile_trace.h"

namespace llmsim::hwdb {

class TraceBuilder {
 public:
  explicit TraceBuilder(std::string file) { trace_.file = std::move(file); }

  ProfileTrace& trace() { return trace_; }

  // The index of a name; Error where distinct names exceed 64 MiB.
  std::uint32_t name(const std::string& text);
  std::uint32_t name(const std::string& text, KernelClass kernels);
  std::uint32_t collective(const CollectiveCall& call);
  std::uint32_t shape(const GemmShape& shape);

  // Adds an event.  Error beyond 2^27 of them: 3 GiB.
  void add(const DeviceEvent& event);

  // The trace, its events by start.  Error where there is none.
  ProfileTrace finish(const std::string& sought);

 private:
  ProfileTrace trace_;
  std::size_t name_bytes_ = 0;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::map<std::string, std::uint32_t> collectives_;
  std::map<GemmShape, std::uint32_t> shapes_;
};

// Nanoseconds of a number of microseconds as it is written, without the rounding of a double:
// "1717000000123456.789".  None for what is no number, or beyond 90 years.
std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds);

// The collective that a kernel's name says: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL".
std::optional<sim::CollectiveKind> collective_named(std::string_view name);

}  // namespace llmsim::hwdb
