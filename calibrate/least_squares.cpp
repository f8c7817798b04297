#include "calibrate/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/NonLinearOptimization>

#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

double to_free(const Parameter& p, double value) {
  if (std::isfinite(p.most)) return std::log((value - p.least) / (p.most - value));
  return std::isfinite(p.least) ? std::log(value - p.least) : value;
}

double from_free(const Parameter& p, double u) {
  if (std::isfinite(p.most)) return p.least + (p.most - p.least) / (1.0 + std::exp(-u));
  return std::isfinite(p.least) ? p.least + std::exp(u) : u;
}

// dp/du
double slope(const Parameter& p, double value) {
  if (std::isfinite(p.most)) return (value - p.least) * (p.most - value) / (p.most - p.least);
  return std::isfinite(p.least) ? value - p.least : 1.0;
}

// The problem in free parameters and weighted residuals, as Eigen's solver wants it.
struct Problem {
  using Scalar = double;
  using InputType = VectorXd;
  using ValueType = VectorXd;
  using JacobianType = MatrixXd;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };

  const std::vector<Parameter>& parameters;
  const Residuals& residuals;
  VectorXd root_weights;

  int inputs() const { return static_cast<int>(parameters.size()); }
  int values() const { return static_cast<int>(root_weights.size()); }

  std::vector<double> natural(const VectorXd& u) const {
    std::vector<double> p(parameters.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = from_free(parameters[i], u[static_cast<Eigen::Index>(i)]);
    return p;
  }

  VectorXd raw(const VectorXd& u) const {
    VectorXd r(values());
    residuals(natural(u), std::span<double>(r.data(), static_cast<std::size_t>(r.size())));
    return r;
  }

  int operator()(const VectorXd& u, VectorXd& r) const {
    r = raw(u).cwiseProduct(root_weights);
    return 0;  // where one is not finite, the step is shortened
  }

  // Central differences.
  int df(const VectorXd& u, MatrixXd& jacobian) const {
    const double step = std::cbrt(std::numeric_limits<double>::epsilon());
    jacobian.resize(values(), inputs());
    VectorXd high(values()), low(values());
    for (Eigen::Index i = 0; i < u.size(); ++i) {
      const double h = step * std::max(1.0, std::abs(u[i]));
      VectorXd moved = u;
      moved[i] = u[i] + h;
      (*this)(moved, high);
      moved[i] = u[i] - h;
      (*this)(moved, low);
      jacobian.col(i) = (high - low) / (2.0 * h);
    }
    return 0;
  }
};

VectorXd start_of(const std::vector<Parameter>& parameters) {
  VectorXd u(static_cast<Eigen::Index>(parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.start <= p.least || p.start >= p.most)
      throw Error("fit: " + p.name + " starts outside its bounds");
    u[static_cast<Eigen::Index>(i)] = to_free(p, p.start);
  }
  return u;
}

VectorXd huber_root_weights(const VectorXd& residuals, double huber, double least_scale) {
  const VectorXd size = residuals.cwiseAbs();
  const double scale = std::max(
      least_scale, 1.4826 * median(std::vector<double>(size.data(), size.data() + size.size())));
  return size.unaryExpr(
      [&](double r) { return r <= huber * scale ? 1.0 : std::sqrt(huber * scale / r); });
}

void descend(Problem& problem, VectorXd& u) {
  Eigen::LevenbergMarquardt<Problem> solver(problem);
  solver.parameters.xtol = solver.parameters.ftol = 1e-12;
  solver.minimize(u);
}

void set_errors(const Problem& problem, const VectorXd& u, LeastSquaresFit& fit) {
  MatrixXd jacobian;
  VectorXd weighted(problem.values());
  problem(u, weighted);
  problem.df(u, jacobian);
  const int freedom = std::max(1, problem.values() - problem.inputs());
  fit.residual_deviation = std::sqrt(weighted.squaredNorm() / freedom);
  const MatrixXd inverse =
      (jacobian.transpose() * jacobian).completeOrthogonalDecomposition().pseudoInverse();
  for (std::size_t i = 0; i < fit.values.size(); ++i) {
    const auto index = static_cast<Eigen::Index>(i);
    const double free_error =
        fit.residual_deviation * std::sqrt(std::max(0.0, inverse(index, index)));
    fit.values[i].standard_error = free_error * slope(problem.parameters[i], fit.values[i].value);
  }
}

LeastSquaresFit result(const Problem& problem, const VectorXd& u) {
  LeastSquaresFit fit;
  const std::vector<double> values = problem.natural(u);
  for (std::size_t i = 0; i < values.size(); ++i)
    fit.values.push_back({problem.parameters[i].name, values[i], 0.0});
  const VectorXd r = problem.raw(u);
  fit.residuals.assign(r.data(), r.data() + r.size());
  fit.rms = r.norm() / std::sqrt(static_cast<double>(r.size()));
  set_errors(problem, u, fit);
  return fit;
}

}  // namespace

LeastSquaresFit least_squares(const std::vector<Parameter>& parameters, std::size_t count,
                              const Residuals& residuals, const LeastSquaresOptions& options) {
  if (count < parameters.size()) {
    throw Error("fit: " + std::to_string(count) + " measurements for " +
                std::to_string(parameters.size()) + " parameters");
  }
  Problem problem{parameters, residuals, VectorXd::Ones(static_cast<Eigen::Index>(count))};
  VectorXd u = start_of(parameters);
  if (!problem.raw(u).allFinite()) throw Error("fit: a residual is not finite at the start");
  descend(problem, u);
  for (int i = 0; options.huber && i < options.max_reweightings; ++i) {
    const VectorXd before = u;
    problem.root_weights = huber_root_weights(problem.raw(u), *options.huber, options.least_scale);
    descend(problem, u);
    if ((u - before).cwiseAbs().maxCoeff() < 1e-7) break;
  }
  return result(problem, u);
}

}  // namespace llmsim::calibrate
