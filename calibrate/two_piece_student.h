// Student's t with four degrees of freedom and a scale of its own on either side of zero.
//
//   density 2 / (a + b) f(z / a) for z < 0 and 2 / (a + b) f(z / b) for z >= 0,
//
// f the density of t_4.  a and b are those of the greatest likelihood.  The tails of t_4 are heavy:
// a few values far out widen their side far less than they would move an empirical quantile.
// Quantiles: P(z < 0) = a / (a + b), and those of t_4 (sim/base/uncertainty.h).
#pragma once

#include <utility>
#include <vector>

namespace llmsim::calibrate {

struct TwoPieceStudent {
  double below = 1.0;  // a
  double above = 1.0;  // b

  double quantile(double p) const;
};

// Of values with a weight each; scales between 0.05 and 20.  Without values: 1 and 1.
TwoPieceStudent fit_two_piece(const std::vector<std::pair<double, double>>& weighted);

}  // namespace llmsim::calibrate
