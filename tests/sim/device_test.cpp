#include "sim/hardware/device.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

constexpr PowerLimit kLike{.watts = 700.0, .peak = FlopsPerSecond(1000e12)};

TEST(PowerLimit, TheSameDeviceHasTheSameClock) {
  EXPECT_DOUBLE_EQ(power_limited_clock(0.88, kLike, kLike), 0.88);
}

// 500 of 700 W for the same peak: (5/7)^0.63 = 0.809.
TEST(PowerLimit, LessPowerIsASlowerClock) {
  EXPECT_NEAR(power_limited_clock(0.88, {.watts = 500.0, .peak = FlopsPerSecond(1000e12)}, kLike),
              0.88 * 0.809, 1e-3);
}

// Half the units under half the limit.
TEST(PowerLimit, EachUnitHasItsShare) {
  EXPECT_DOUBLE_EQ(
      power_limited_clock(0.88, {.watts = 350.0, .peak = FlopsPerSecond(500e12)}, kLike), 0.88);
}

TEST(PowerLimit, PowerToSpareGivesNoMoreThanTheClockOfShortRuns) {
  EXPECT_EQ(power_limited_clock(0.88, {.watts = 1400.0, .peak = FlopsPerSecond(1000e12)}, kLike),
            1.0);
}

// 750 to 1000 W: the pair that the exponent comes from.
TEST(PowerLimit, AThirdMorePowerIsAFifthMoreRate) {
  const PowerLimit less{.watts = 750.0, .peak = FlopsPerSecond(1307e12)},
      more{.watts = 1000.0, .peak = less.peak};
  EXPECT_NEAR(power_limited_clock(0.8, more, less) / 0.8, 1.2, 2e-3);
}

}  // namespace
}  // namespace llmsim::sim
