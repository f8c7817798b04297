// Robust nonlinear least squares with error bars.
//
// Minimises  sum_i w_i r_i(p)^2  over the parameters p of a model, r_i the residuals (here:
// logarithms of predicted over measured time), with Huber weights
//
//   w_i = min(1, h s / |r_i|),   s = 1.4826 median |r_i|
//
// renewed until they settle (iteratively reweighted least squares); without h all weights are 1.
// Each pass is a Levenberg-Marquardt descent on the parameters in unconstrained form: u = ln((p -
// least) / (most - p)), or ln(p - least) where there is no upper bound, or p where there is no
// bound.  Standard errors are the square roots of the diagonal of
//
//   C = s2 D (J^T W J)^-1 D,   s2 = sum_i w_i r_i^2 / (N - P),   D = diag(dp/du)
//
// Source: Eigen's Levenberg-Marquardt (after MINPACK lmdif); Huber, "Robust Statistics", 1981.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llmsim::calibrate {

struct Parameter {
  std::string name;
  double start = 0.0;  // strictly between the bounds
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

// Fills `residuals` for the parameters' values, in their order.
using Residuals = std::function<void(std::span<const double> values, std::span<double> residuals)>;

// Standard deviation of ln(predicted / measured) that fits of single operators usually leave: a
// prior's deviation is weighed with it against those of samples.
inline constexpr double kUsualMisfit = 0.08;

struct LeastSquaresOptions {
  std::optional<double> huber = 1.345;  // h; 95 % efficient on normal noise
  // s at least: few residuals agree by chance, and where most of them are priors s would be 0.
  double least_scale = 0.0;
  int max_reweightings = 20;
};

struct FittedValue {
  std::string name;
  double value = 0.0;
  double standard_error = 0.0;
};

struct LeastSquaresFit {
  std::vector<FittedValue> values;  // in the order of the parameters
  std::vector<double> residuals;    // at the solution, unweighted
  double rms = 0.0;                 // root mean square of the residuals, unweighted
  double residual_deviation = 0.0;  // sqrt(s2)

  double value(std::size_t index) const { return values[index].value; }
};

// Fits `parameters` to `count` residuals.  Throws Error for fewer residuals than parameters, a
// start outside its bounds, or residuals that are not finite at the start.
LeastSquaresFit least_squares(const std::vector<Parameter>& parameters, std::size_t count,
                              const Residuals& residuals, const LeastSquaresOptions& options = {});

}  // namespace llmsim::calibrate
