// The device that measurements stand on: what it is called, what it has, what it can do.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "sim/base/quantity.h"

namespace llmsim::runtime {

// What stands in the header of a result file.
struct Environment {
  std::string device;  // "AMD EPYC 9654", "NVIDIA H100 80GB HBM3"
  std::string kind;    // "cpu", "cuda"
  int cores = 1;       // that the process may run on
  int threads = 1;     // that kernels use on the CPU
  std::string libtorch, blas, operating_system;
  std::string driver;             // of an accelerator: "580.159.04"; empty: unknown
  int runtime_version = 0;        // of CUDA or HIP: 13000; 0: unknown
  sim::Bytes memory{};            // of the device
  sim::Bytes last_level_cache{};  // 0: unknown
  int compute_units = 0;          // SMs, CUs; 0: unknown
  bool multiplies_bf16 = false;
};

// "cpu", "cuda", "cuda:1", "meta"; "cuda" is the current one, by its number.  Throws Error for
// other names and for devices that are not there.
c10::Device device_named(const std::string& name);

// "cuda" where there is one, else "cpu".
std::string default_device();

Environment environment(c10::Device device);

// Whether the device can multiply in a format, tried out with a GEMM of 16 x 16.
bool multiplies_in(c10::Device device, c10::ScalarType type);

// Threads of kernels on the CPU, those of the BLAS included.  Requires at least 1.
void use_threads(int threads);

// Begins this program anew with OMP_WAIT_POLICY=passive where the BLAS has threads of its own and
// the environment says nothing: threads of OpenMP that spin for work would take the cores from
// them, and a step takes three to five times as long.
void wait_passively(char** arguments);

// Memory that tensors on the CPU free stays with the process and is used again, as the allocators
// of accelerators do: else every large tensor would be paid for page by page.
void keep_freed_memory();

// Bytes that can be allocated now; none where the device does not say.
std::optional<sim::Bytes> available_memory(c10::Device device);

// Readings of a CPU while a measurement runs (accelerators: library/accelerator.h); none where the
// machine does not tell.
struct PowerState {
  std::optional<double> clock_hz;
  std::optional<double> watts;
};
PowerState power_state(c10::Device device);

// How long work takes on a device: events in its stream on accelerators, the
// host's clock on the CPU.
//
// Where a libtorch has no elapsed time between events, the host's clock is read around a
// synchronised piece of work instead.

// Until all work that was put on the device is done.
void synchronize(c10::Device device);

// Time of `work`, which puts kernels on the current stream of `device`.
sim::Seconds timed(c10::Device device, const std::function<void()>& work);

// Divides the time of a device's work into laps of several kinds, without waiting in between.
class Stopwatch {
 public:
  static constexpr int kKinds = 4;
  using Laps = std::array<std::optional<sim::Seconds>, kKinds>;

  explicit Stopwatch(c10::Device device);  // starts
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // What was put on the device since the lap before, or the start, is of this kind.
  void lap(int kind);
  // Sums by kind; none of what had no lap, and where a libtorch cannot tell.  Waits for the device.
  Laps read();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Time that has passed on the host.
sim::Seconds since(std::chrono::steady_clock::time_point start);

}  // namespace llmsim::runtime
