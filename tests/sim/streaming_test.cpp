#include "sim/cost/kernels.h"

#include <cmath>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

// 10 GB/s, 8 MB of cache, 1 us a kernel; norms stream at half the rate of memory, and at four times it from the cache.
StreamingMachine machine() {
  StreamingMachine machine{.bandwidth = 10.0 * GBps, .cache = 8.0 * MB, .kernel_time = 1.0 * us, .rates = {}, .forms = {}};
  machine.rates.forward[static_cast<std::size_t>(StreamingKernel::LayerNorm)] = {.cached = 4.0, .streamed = 0.5};
  return machine;
}

// Of so many megabytes, in two kernels.
Operator norm(double megabytes) { return streaming(OperatorKind::Norm, "norm", megabytes * 1e6, 1.0, 2); }

TEST(Streaming, LargeOperandsComeFromMemory) {
  // 100 MB at 5 GB/s, and two kernels.
  EXPECT_NEAR(streaming_time(norm(100.0), false, machine()) / ms, 20.0 + 0.002, 1e-9);
}

TEST(Streaming, SmallOperandsComeFromTheCache) {
  // 4 MB at 40 GB/s, and two kernels.
  EXPECT_NEAR(streaming_time(norm(4.0), false, machine()) / ms, 0.1 + 0.002, 1e-9);
}

TEST(Streaming, BetweenBothTheRateIsTheirGeometricMean) {
  // 8 MB at sqrt(4 * 0.5) * 10 GB/s.
  EXPECT_NEAR(streaming_time(norm(8.0), false, machine()) / ms, 8.0 / (std::sqrt(2.0) * 10.0) + 0.002, 1e-9);
}

TEST(Streaming, OtherPassesAndKindsHaveRatesOfTheirOwn) {
  EXPECT_NEAR(streaming_time(norm(4.0), true, machine()) / ms, 0.4 + 0.002, 1e-9);
  const Operator residual = streaming(OperatorKind::Residual, "residual", 4e6, 1.0, 2);
  EXPECT_NEAR(streaming_time(residual, false, machine()) / ms, 0.4 + 0.002, 1e-9);
}

TEST(Streaming, WithoutAKnownCacheEverythingStreams) {
  EXPECT_EQ(streamed_share(1.0 * KiB, Bytes(0.0)), 1.0);
  EXPECT_EQ(streamed_share(2.0 * MB, 8.0 * MB), 0.0);
  EXPECT_EQ(streamed_share(16.0 * MB, 8.0 * MB), 1.0);
}

}  // namespace
}  // namespace llmsim::sim
