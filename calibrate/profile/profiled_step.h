// A step as profiled: what one rank's device did, class by class, from the traces of one run.
//
// Which steps.  Those that the profiler has marked; without marks, or where these are of
// micro-batches, from the end of one burst of optimizer kernels to the end of the next; without
// these, from one occurrence of a rare kernel to the next, where the kernels between them repeat.
// Of three or more marked steps the first is left out: the profiler itself starts in it.
// Everything is a mean over these steps.
//
// Busy and exposed.  A kernel is busy for as long as it runs.  Exposed times are a partition of the
// step: at each instant of it the device
//
//   computes           where any kernel runs that is no collective; the first to begin counts
//   communicates       else, where a collective runs
//   copies             else, where a copy engine runs
//   waits for data     else, where the host is in a data loader
//   is idle            else
//
// Waiting.  Collectives end together and begin when a rank arrives: of the same call (the k-th of
// its kind in its group) the shortest on any profiled rank is what the wire takes, and what a call
// lasts longer on a rank is waiting for the last to come.  The clocks of ranks need not agree.
// Sends and receives have no such pairs, and where ranks have other numbers of calls all of their
// time is the wire's.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/profile/step_part.h"
#include "hwdb/profile/profile_trace.h"
#include "sim/base/quantity.h"

namespace llmsim::calibrate {

// How the steps of a trace were found.
enum class StepMarks { Profiler, Optimizer, Period, None };
sim::NameTable<StepMarks> name_table(StepMarks);

struct StepWindow {
  hwdb::TimeSpan span;
  int steps = 1;
  StepMarks marks = StepMarks::None;
};

StepWindow step_window(const hwdb::ProfileTrace& trace);

// Of one step.
struct KernelTotal {
  double kernels = 0.0;
  sim::Seconds busy{};
  sim::Seconds exposed{};
};

struct ProfiledCollective {
  hwdb::CollectiveCall call;  // its message is that of all calls
  KernelTotal total{};
  sim::Seconds wire{};             // busy, without waiting
  sim::Seconds waiting_exposed{};  // part of total.exposed
};

struct ProfiledGemm {
  hwdb::GemmShape shape;
  KernelTotal total;
};

struct ProfiledKernel {
  std::string name;
  hwdb::KernelClass kernels = hwdb::KernelClass::Other;
  KernelTotal total;
};

struct ProfiledStep {
  std::string file;
  std::optional<int> rank, world_size;
  StepWindow window;
  sim::Seconds step{};
  std::array<KernelTotal, hwdb::kNumKernelClasses> classes{};
  KernelTotal attention_forward{};                // part of attention
  std::vector<ProfiledCollective> collectives{};  // each group and kind
  std::vector<ProfiledGemm> gemms{};              // where the trace has shapes
  std::vector<ProfiledKernel> kernels{};          // by name, the longest first
  sim::Seconds loading{}, idle{};
  double gaps = 0.0;  // in which the device is idle
  bool predicted = false;

  const KernelTotal& of(hwdb::KernelClass kernels_of) const {
    return classes[static_cast<std::size_t>(kernels_of)];
  }
  sim::Seconds waiting() const;  // exposed
};

// One for each trace.  Requires at least one.
std::vector<ProfiledStep> profiled_steps(std::span<const hwdb::ProfileTrace> traces);

}  // namespace llmsim::calibrate
