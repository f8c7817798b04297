// Which copies measure memory, by the size of the last-level cache.
#include "runtime/measure/device_bench.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "sim/cost/kernels.h"

namespace llmsim::runtime {
namespace {

using sim::Bytes;
using sim::GiB;
using sim::KiB;
using sim::MiB;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr Bytes kLarge = 64.0 * GiB;

// Both buffers of the 64 MiB copy are four caches of 32 MiB: no larger one is needed.
TEST(CopySizes, GrowByFourToTheUsualSize) {
  const Sizes usual{16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB};
  for (const Bytes cache : {Bytes(0.0), 1.0 * MiB, 32.0 * MiB})
    EXPECT_EQ(copy_sizes({.cache = cache, .usual = 128.0 * MiB, .buffers = kLarge}), usual);
}

TEST(CopySizes, EndWithOneThatLeavesAKnownCache) {
  for (double cache = 1.0; cache <= 2048.0; cache *= 1.1) {
    const CopyLimits limits{.cache = cache * MiB, .usual = 128.0 * MiB, .buffers = kLarge};
    const Sizes sizes = copy_sizes(limits);
    EXPECT_TRUE(leave_cache(sizes, limits.cache)) << cache << " MiB";
    EXPECT_GE(2.0 * static_cast<double>(sizes.back()), sim::kCopyOfMemory * limits.cache.value())
        << cache << " MiB";
    EXPECT_LE(static_cast<double>(sizes.back()),
              std::max(128.0 * MiB, 2.0 * limits.cache + 16.0 * KiB).value());
    EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end(), std::less_equal<>())) << cache << " MiB";
    for (const std::int64_t size : sizes) EXPECT_EQ(size % (16 * kKiB), 0);
  }
}

// 480 MiB of cache ask for two buffers of 960 MiB; 1 GiB holds two of 512.
TEST(CopySizes, StayWithinTheMemory) {
  const CopyLimits limits{.cache = 480.0 * MiB, .usual = 128.0 * MiB, .buffers = 1.0 * GiB};
  const Sizes sizes = copy_sizes(limits);
  EXPECT_EQ(sizes.back(), 512 * kMiB);
  EXPECT_FALSE(leave_cache(sizes, limits.cache));
  EXPECT_EQ(copy_sizes({.cache = 480.0 * MiB, .usual = 128.0 * MiB, .buffers = kLarge}).back(),
            960 * kMiB);
  EXPECT_EQ(copy_sizes({.cache = {}, .usual = 1.0 * GiB, .buffers = 3.0 * MiB}).back(), kMiB);
  EXPECT_EQ(copy_sizes({.cache = 1.0 * GiB, .usual = 1.0 * GiB, .buffers = {}}), Sizes{16 * kKiB});
}

}  // namespace
}  // namespace llmsim::runtime
