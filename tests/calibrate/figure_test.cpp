// One value of repeated readings, and summaries of logs as run files have them.
#include "calibrate/figure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "calibrate/log_summary.h"

namespace llmsim::calibrate {
namespace {

// Of 1, 2, 3, 4 and 10 the median is 3 and the median distance from it 1: sigma is 1.4826, and that
// of the median of five sqrt(pi / 10) of it.
TEST(Figure, IsTheMedianAndItsStandardError) {
  const double share = std::sqrt(std::numbers::pi / 10.0);
  std::vector<Repeated> readings = {{4.0}, {1.0}, {10.0}, {2.0}, {3.0}};
  EXPECT_EQ(figure(readings).value, 3.0);
  EXPECT_NEAR(*figure(readings).standard_error, 1.4826 * share, 1e-12);
  for (Repeated& reading : readings) reading.deviation = 2.0;
  EXPECT_NEAR(*figure(readings).standard_error, std::hypot(1.4826, 2.0) * share, 1e-12);
}

TEST(Figure, OfEqualReadingsNothingTellsTheError) {
  EXPECT_FALSE(figure({{5.0}, {5.0}}).standard_error);
  EXPECT_NEAR(*figure({{5.0, 0.1}}).standard_error, 0.1 * std::sqrt(std::numbers::pi / 2.0), 1e-12);
}

LogSummary printed_summary() {
  LogSummary summary;
  summary.format = "a log";
  summary.phase.median = 2.5;
  summary.from = Logged::TokensPerSecond;
  summary.device_tokens_per_second = 1000.0;
  summary.device_flops_per_second = 3e14;
  summary.mfu = 0.3;
  return summary;
}

TEST(MeasuredOfALog, IsWhatTheLogPrints) {
  const hwdb::Measured result = measured(printed_summary(), 1);
  EXPECT_EQ(result.outcome, "ok");
  EXPECT_EQ(*result.step_time, sim::Seconds(2.5));
  EXPECT_EQ(*result.step_time_derived_from, "tokens_per_s of the run");
  EXPECT_EQ(*result.tokens_per_second_per_device, 1000.0);
  EXPECT_EQ(*result.reported_tflops_per_device, 300.0);
  EXPECT_EQ(*result.reported_mfu, 0.3);
  EXPECT_FALSE(result.peak_memory);
}

TEST(MeasuredOfALog, StepTimesThemselvesAreNotDerived) {
  LogSummary summary = printed_summary();
  summary.from = Logged::StepTime;
  EXPECT_FALSE(measured(summary, 1).step_time_derived_from);
}

TEST(MeasuredOfALog, AllocatedPeaksComeBeforeReservedOnes) {
  LogSummary summary = printed_summary();
  summary.peak_reserved = 30.0 * sim::GiB;
  EXPECT_EQ(measured(summary, 1).memory_kind, "reserved");
  EXPECT_EQ(*measured(summary, 1).peak_memory, 30.0 * sim::GiB);
  summary.peak_allocated = 20.0 * sim::GiB;
  EXPECT_EQ(measured(summary, 1).memory_kind, "allocated");
  EXPECT_EQ(*measured(summary, 1).peak_memory, 20.0 * sim::GiB);
  summary.out_of_memory = true, summary.format.clear();
  EXPECT_EQ(measured(summary, 1).outcome, "oom");
  EXPECT_FALSE(measured(summary, 1).step_time);
}

}  // namespace
}  // namespace llmsim::calibrate
