// The parts of a step that a profile and a prediction both have: every second of a step belongs to
// exactly one of them.
#pragma once

#include <array>

#include "sim/base/field.h"
#include "sim/base/quantity.h"

namespace llmsim::calibrate {

enum class StepPart {
  Gemms,
  Attention,
  MemoryBound,  // norms, activations, elementwise kernels, cross-entropy, embedding, scans
  Casts,        // to low-precision formats
  Optimizer,
  OtherKernels,  // whose names say nothing
  // Collectives that no kernel hides, by the ranks that take part.
  Tensor,
  Context,
  Expert,
  Pipeline,  // and what a stage waits for others
  Data,
  OtherCollectives,
  Waiting,  // in collectives, for ranks that are late
  Copies,   // between host and device, which nothing hides
  Loading,  // the device is idle while its host waits for data
  Idle,     // the device is idle: its host launches, or works between steps
  // Of a prediction: what its operators and its components disagree about, and rounding.
  Remainder
};
inline constexpr int kNumStepParts = static_cast<int>(StepPart::Remainder) + 1;

sim::NameTable<StepPart> name_table(StepPart);  // stable keys: "gemms", "tensor_collectives", ...

constexpr bool is_collective(StepPart part) {
  return part >= StepPart::Tensor && part <= StepPart::OtherCollectives;
}

// A duration for each part.
class StepParts {
 public:
  sim::Seconds& operator[](StepPart part) { return times_[static_cast<std::size_t>(part)]; }
  sim::Seconds operator[](StepPart part) const { return times_[static_cast<std::size_t>(part)]; }
  sim::Seconds total() const;

 private:
  std::array<sim::Seconds, kNumStepParts> times_{};
};

}  // namespace llmsim::calibrate
