// Layouts as a few independent effects.
//
// What predictions of layouts miss, g(x) with the covariance k of sim/strategy/layout_errors.h, is
//
//   g(x) = sum_j y_j(x) z_j + rest,  z_j ~ N(0, 1),  y(x) = L^-1 k(x, P),  L L' = k(P, P)
//
// with some of the layouts, P, and L lower triangular.  P are taken one after the other, each time
// the layout whose rest has the largest variance k(x, x) - y(x)' y(x), until none has a
// ten-thousandth of e^2: layouts that are equal or nearly so have one effect.
// Source: pivoted Cholesky decomposition, Harbrecht, Peters & Schneider,
// Appl. Numer. Math. 62 (2012).
#pragma once

#include <vector>

#include "sim/strategy/layout_errors.h"

namespace llmsim::calibrate {

class LayoutBasis {
 public:
  LayoutBasis() = default;
  LayoutBasis(std::vector<sim::LayoutPoint> points, const sim::LayoutErrors& errors);

  const std::vector<sim::LayoutPoint>& pivots() const { return pivots_; }
  const sim::LayoutErrors& errors() const { return errors_; }
  // y(x).
  std::vector<double> slopes(const sim::LayoutPoint& x) const;
  // k(x, x') - y(x)' y(x').
  double rest(const sim::LayoutPoint& x, const sim::LayoutPoint& other) const;
  // L^-T v: weights of k(x, P) that give sum_j v_j y_j(x).
  std::vector<double> weights(std::vector<double> v) const;

 private:
  sim::LayoutErrors errors_;
  std::vector<sim::LayoutPoint> pivots_;
  std::vector<std::vector<double>> lower_;  // rows of L
};

}  // namespace llmsim::calibrate
