#include "calibrate/two_piece_student.h"

#include <cmath>
#include <limits>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
namespace {

using sim::student_quantile;

constexpr double kMostLogScale = 3.0;  // ln 20
constexpr int kRefinements = 8;        // of the grid, each to a third
constexpr int kGrid = 9;               // points on either side of its middle

double log_likelihood(const std::vector<std::pair<double, double>>& weighted,
                      const TwoPieceStudent& student) {
  const double norm = std::log(student.below + student.above);
  double sum = 0.0;
  for (const auto& [z, weight] : weighted) {
    const double x = z / (z < 0.0 ? student.below : student.above);
    sum -= weight *
           (norm + 0.5 * (sim::kStudentFreedom + 1.0) * std::log1p(x * x / sim::kStudentFreedom));
  }
  return sum;
}

}  // namespace

double TwoPieceStudent::quantile(double p) const {
  const double share = below / (below + above);
  return p < share ? below * student_quantile(0.5 * p / share)
                   : above * student_quantile(0.5 + 0.5 * (p - share) / (1.0 - share));
}

TwoPieceStudent fit_two_piece(const std::vector<std::pair<double, double>>& weighted) {
  if (weighted.empty()) return {};
  double below = 0.0, above = 0.0, step = kMostLogScale / kGrid;
  for (int refinement = 0; refinement < kRefinements; ++refinement, step /= 3.0) {
    const double middle_below = below, middle_above = above;
    double best = -std::numeric_limits<double>::infinity();
    for (int i = -kGrid; i <= kGrid; ++i) {
      for (int j = -kGrid; j <= kGrid; ++j) {
        const double a = middle_below + i * step, b = middle_above + j * step;
        if (std::abs(a) > kMostLogScale || std::abs(b) > kMostLogScale) continue;
        const double likelihood = log_likelihood(weighted, {std::exp(a), std::exp(b)});
        if (likelihood > best) best = likelihood, below = a, above = b;
      }
    }
  }
  return {std::exp(below), std::exp(above)};
}

}  // namespace llmsim::calibrate
