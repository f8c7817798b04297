#include "calibrate/figure.h"

#include <cmath>

#include "calibrate/statistics.h"

namespace llmsim::calibrate {

Figure figure(const std::vector<Repeated>& readings) {
  std::vector<double> values, deviations, repeats;
  for (const Repeated& reading : readings)
    values.push_back(reading.value), repeats.push_back(reading.deviation);
  Figure result{.value = median(values), .standard_error = {}};
  for (const double value : values) deviations.push_back(std::abs(value - result.value));
  const double sigma = std::hypot(1.4826 * median(deviations), median(repeats));
  if (sigma > 0.0)
    result.standard_error =
        sigma * std::sqrt(std::acos(-1.0) / 2.0 / static_cast<double>(values.size()));
  return result;
}

}  // namespace llmsim::calibrate
