// What an accelerator's clock, power and temperature were while something ran, read every few
// milliseconds by a thread of its own.
//
// A kernel's time is that of a clock.  A card that is too hot, or at its power limit, lowers it
// without a word, and a step runs hotter than the kernel that was measured alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <c10/core/Device.h>

namespace llmsim::runtime {

struct ClockSummary {
  std::optional<double> clock_hz, lowest_clock_hz;  // median and smallest
  std::optional<double> watts;                      // mean
  std::optional<double> temperature;                // highest, degrees Celsius
  std::uint64_t throttle_reasons = 0;               // that were given at any reading
};

class ClockLog {
 public:
  // Reads from now on; of a CPU once, at the end.
  explicit ClockLog(c10::Device device);
  ~ClockLog();
  ClockLog(const ClockLog&) = delete;
  ClockLog& operator=(const ClockLog&) = delete;

  ClockSummary stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmsim::runtime
