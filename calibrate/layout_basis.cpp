#include "calibrate/layout_basis.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace llmsim::calibrate {
namespace {

constexpr double kNegligibleRest = 1e-4;  // of e^2

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

LayoutBasis::LayoutBasis(std::vector<sim::LayoutPoint> points, const sim::LayoutErrors& errors)
    : errors_(errors) {
  const double negligible = kNegligibleRest * errors.error * errors.error;
  while (errors.error > 0.0 && !points.empty()) {
    std::vector<double> rests;
    for (const sim::LayoutPoint& x : points) rests.push_back(rest(x, x));
    const auto largest = std::ranges::max_element(rests);
    if (*largest <= negligible) break;
    const auto pivot = points.begin() + (largest - rests.begin());
    std::vector<double> row = slopes(*pivot);
    row.push_back(std::sqrt(*largest));
    pivots_.push_back(*pivot);
    lower_.push_back(std::move(row));
    points.erase(pivot);
  }
}

std::vector<double> LayoutBasis::slopes(const sim::LayoutPoint& x) const {
  std::vector<double> y;
  for (std::size_t i = 0; i < pivots_.size(); ++i) {
    double left = errors_.covariance(x, pivots_[i]);
    for (std::size_t j = 0; j < i; ++j) left -= lower_[i][j] * y[j];
    y.push_back(left / lower_[i][i]);
  }
  return y;
}

double LayoutBasis::rest(const sim::LayoutPoint& x, const sim::LayoutPoint& other) const {
  return errors_.covariance(x, other) - product(slopes(x), slopes(other));
}

std::vector<double> LayoutBasis::weights(std::vector<double> v) const {
  for (std::size_t i = pivots_.size(); i-- > 0;) {
    v[i] /= lower_[i][i];
    for (std::size_t j = 0; j < i; ++j) v[j] -= lower_[i][j] * v[i];
  }
  return v;
}

}  // namespace llmsim::calibrate
