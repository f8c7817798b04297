// Clock of a device whose GEMMs nobody has measured, from one of the same chip with another power limit.
//
// Under a long training step matrix units run as fast as the power limit allows.  A unit at clock f takes power f^(1/a), so n
// units under a limit W run at f ~ (W / n)^a.  With the data sheet's peak P ~ n,
//
//   clock / clock_like = ((W / P) / (W_like / P_like))^a       a = 0.63, clocks relative to that of the data sheet
//
// and never above the clock of short runs.  Source of a: MI325X (1000 W) sustains 20 % more than MI300X (750 W) with the same
// peak, ln 1.2 / ln (4/3) = 0.63 (ROCm blogs, measuring max-achievable FLOPs, part 2); the best bf16 GEMMs of one collector on
// B200, B300, GB200 and GB300 (1000 to 1400 W) grow with the power limit to the power of 0.61 (ai-dynamo/aiconfigurator
// @095f58a). Assumes the same architecture, whose units take the same power at the same clock.
#pragma once

#include "sim/base/quantity.h"

namespace llmsim::sim {

constexpr double kPowerExponent = 0.63;

struct PowerLimit {
  double watts = 0.0;
  FlopsPerSecond peak;  // of the matrix units in 16 bits
};

// `clock`: the sustained clock of `like`, relative to short runs.  Requires positive limits and peaks.
double power_limited_clock(double clock, const PowerLimit& device, const PowerLimit& like);

}  // namespace llmsim::sim
