#include "sim/hardware/power_limit.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {

double power_limited_clock(double clock, const PowerLimit& device, const PowerLimit& like) {
  const double power = device.watts / like.watts * (like.peak / device.peak);
  return std::min(1.0, clock * std::pow(power, kPowerExponent));
}

}  // namespace llmsim::sim
