#include "sim/base/student.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {

double student_probability(double t) {
  // Far out, where t^2 is infinite, s is that of the limit.
  const double s = std::isinf(t) ? std::copysign(1.0, t) : t / std::hypot(2.0, t);
  return std::clamp(0.5 + 0.75 * (s - s * s * s / 3.0), 0.0, 1.0);
}

double student_quantile(double p) {
  const double root = std::sqrt(4.0 * p * (1.0 - p));
  const double size = 2.0 * std::sqrt(std::max(0.0, std::cos(std::acos(root) / 3.0) / root - 1.0));
  return p < 0.5 ? -size : size;
}

}  // namespace llmsim::sim
