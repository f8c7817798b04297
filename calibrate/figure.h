// One value from repeated readings of it, and how sure it is.
#pragma once

#include <optional>
#include <vector>

namespace llmsim::calibrate {

// One reading of a value, and the deviation of its repeats.
struct Repeated {
  double value = 0.0;
  double deviation = 0.0;
};

// The median of readings.  Its standard error is that of the median of n normal values, sqrt(pi /
// 2n) sigma: sigma is 1.4826 median absolute deviations of the readings, with the deviation of the
// repeats of a reading.
struct Figure {
  double value = 0.0;
  std::optional<double> standard_error;  // none where nothing tells
};

// Requires at least one reading.
Figure figure(const std::vector<Repeated>& readings);

}  // namespace llmsim::calibrate
