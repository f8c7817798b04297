#include "calibrate/profile/profiled_step.h"

#include <gtest/gtest.h>

namespace llmsim::calibrate {
namespace {

using hwdb::KernelClass;
using sim::Seconds;

// A trace in nanoseconds: names are looked up as profilers list them.
class Trace {
 public:
  explicit Trace(int rank = 0) { trace_.rank = rank; }

  Trace& kernel(const char* name, std::int64_t start, std::int64_t end) {
    add(name, hwdb::class_of_kernel(name), start, end, hwdb::kNoDetail);
    return *this;
  }
  Trace& all_reduce(std::int64_t start, std::int64_t end) {
    trace_.collectives = {{.kind = sim::CollectiveKind::AllReduce,
                           .group = "1",
                           .ranks = 2,
                           .message = sim::Bytes(100.0)}};
    add("ncclDevKernel_AllReduce", KernelClass::Collective, start, end, 0);
    return *this;
  }
  Trace& step(std::int64_t start, std::int64_t end) {
    trace_.steps.push_back({start, end});
    return *this;
  }
  Trace& loading(std::int64_t start, std::int64_t end) {
    trace_.loading.push_back({start, end});
    return *this;
  }
  hwdb::ProfileTrace done() const { return trace_; }

 private:
  void add(const std::string& name, KernelClass kernels, std::int64_t start, std::int64_t end,
           std::uint32_t detail) {
    std::uint32_t place = 0;
    while (place < trace_.names.size() && trace_.names[place].text != name) ++place;
    if (place == trace_.names.size())
      trace_.names.push_back({name, kernels, hwdb::is_backward_kernel(name)});
    trace_.events.push_back(
        {.start = start, .duration = end - start, .name = place, .detail = detail});
  }

  hwdb::ProfileTrace trace_;
};

ProfiledStep profiled(const hwdb::ProfileTrace& trace) {
  return profiled_steps(std::span(&trace, 1)).front();
}

void expect_nanoseconds(Seconds time, double nanoseconds) {
  EXPECT_NEAR(1e9 * time.value(), nanoseconds, 1e-6);
}

// 0..100: a GEMM 10..40, an add beside it 30..50, an all-reduce 20..70, a copy 60..80, data from 85
// on.  Of the add 40..50 is its own, of the all-reduce 50..70, of the copy 70..80; 20 ns are idle,
// 0..10, 80..85 and 95..100 when the loader is through.
TEST(ProfiledSteps, ArePartitionedByHand) {
  const ProfiledStep step = profiled(Trace()
                                         .step(0, 100)
                                         .kernel("nvjet_a", 10, 40)
                                         .all_reduce(20, 70)
                                         .kernel("vectorized_elementwise_kernel", 30, 50)
                                         .kernel("__amd_rocclr_copyBuffer", 60, 80)
                                         .loading(85, 95)
                                         .done());
  expect_nanoseconds(step.step, 100);
  expect_nanoseconds(step.of(KernelClass::Gemm).exposed, 30);
  expect_nanoseconds(step.of(KernelClass::Elementwise).exposed, 10);
  expect_nanoseconds(step.of(KernelClass::Elementwise).busy, 20);
  expect_nanoseconds(step.of(KernelClass::Collective).exposed, 20);
  expect_nanoseconds(step.of(KernelClass::Copy).exposed, 10);
  expect_nanoseconds(step.loading, 10);
  expect_nanoseconds(step.idle, 20);
  EXPECT_EQ(step.gaps, 2.0);
  ASSERT_EQ(step.collectives.size(), 1u);
  expect_nanoseconds(step.collectives.front().wire, 50);
}

// Of two steps a kernel's mean; what lies outside of them does not count.
TEST(ProfiledSteps, AreMeansOfTheMarkedSteps) {
  const ProfiledStep step = profiled(Trace()
                                         .step(0, 100)
                                         .step(100, 200)
                                         .kernel("nvjet_a", 0, 30)
                                         .kernel("nvjet_a", 100, 110)
                                         .kernel("nvjet_a", 190, 250)
                                         .done());
  EXPECT_EQ(step.window.steps, 2);
  EXPECT_EQ(step.window.marks, StepMarks::Profiler);
  expect_nanoseconds(step.of(KernelClass::Gemm).busy, 25);
  EXPECT_EQ(step.of(KernelClass::Gemm).kernels, 1.5);
}

TEST(ProfiledSteps, LeaveOutTheFirstOfThree) {
  const ProfiledStep step = profiled(
      Trace().step(0, 500).step(500, 600).step(600, 700).kernel("nvjet_a", 510, 520).done());
  EXPECT_EQ(step.window.steps, 2);
  expect_nanoseconds(step.step, 100);
}

// Rank 1 arrives 30 ns after rank 0, on a clock of its own.
TEST(ProfiledSteps, TellWaitingFromTheWire) {
  const std::vector<hwdb::ProfileTrace> traces{
      Trace(0).step(0, 100).kernel("nvjet_a", 0, 40).all_reduce(40, 90).done(),
      Trace(1).step(5000, 5100).kernel("nvjet_a", 5000, 5070).all_reduce(5070, 5090).done()};
  const std::vector<ProfiledStep> steps = profiled_steps(traces);
  expect_nanoseconds(steps[0].waiting(), 30);
  expect_nanoseconds(steps[0].collectives.front().wire, 20);
  expect_nanoseconds(steps[1].waiting(), 0);
}

// Ranks that have other numbers of calls are not compared.
TEST(ProfiledSteps, CompareEqualCallsOnly) {
  const std::vector<hwdb::ProfileTrace> traces{
      Trace(0).step(0, 100).all_reduce(40, 90).done(),
      Trace(1).step(0, 100).all_reduce(0, 10).all_reduce(70, 90).done()};
  expect_nanoseconds(profiled_steps(traces)[0].waiting(), 0);
}

// Two kernels of an optimizer, 10 apart, end each step of 100.
TEST(StepWindow, IsFoundByTheOptimizer) {
  Trace trace;
  for (int i = 0; i < 4; ++i)
    trace.kernel("nvjet_a", 100 * i, 100 * i + 50)
        .kernel("multi_tensor_apply_kernel", 100 * i + 60, 100 * i + 70)
        .kernel("multi_tensor_apply_kernel", 100 * i + 80, 100 * i + 90);
  const StepWindow window = step_window(trace.done());
  EXPECT_EQ(window.marks, StepMarks::Optimizer);
  EXPECT_EQ(window.steps, 3);
  EXPECT_EQ(window.span.start, 90);
  EXPECT_EQ(window.span.end, 390);
}

// Four micro-batches of 25, each marked, and an update at the end.
TEST(StepWindow, IsThatOfTheOptimizerWhereMicroBatchesAreMarked) {
  Trace trace;
  for (int i = 0; i < 12; ++i) {
    trace.step(25 * i, 25 * i + 25).kernel("nvjet_a", 25 * i, 25 * i + 10);
    if (i % 4 == 3) trace.kernel("multi_tensor_apply_kernel", 25 * i + 15, 25 * i + 20);
  }
  const StepWindow window = step_window(trace.done());
  EXPECT_EQ(window.marks, StepMarks::Optimizer);
  EXPECT_EQ(window.steps, 2);
  EXPECT_EQ(window.span.length(), 200);
}

TEST(StepWindow, IsFoundByKernelsThatRepeat) {
  Trace trace;
  for (int i = 0; i < 5; ++i)
    trace.kernel("softmax", 100 * i, 100 * i + 10)
        .kernel("nvjet_a", 100 * i + 20, 100 * i + 30)
        .kernel("nvjet_a", 100 * i + 40, 100 * i + 90);
  const StepWindow window = step_window(trace.done());
  EXPECT_EQ(window.marks, StepMarks::Period);
  EXPECT_EQ(window.steps, 4);
  EXPECT_EQ(window.span.length(), 400);
}

TEST(StepWindow, IsTheWholeTraceWhereNothingRepeats) {
  const StepWindow window =
      step_window(Trace().kernel("nvjet_a", 5, 10).kernel("softmax", 20, 40).done());
  EXPECT_EQ(window.marks, StepMarks::None);
  EXPECT_EQ(window.span.length(), 35);
}

}  // namespace
}  // namespace llmsim::calibrate
