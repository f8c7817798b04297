#include "calibrate/layout_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "calibrate/in_parallel.h"
#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kLayoutCount = static_cast<Index>(sim::kLayoutNumbers);
constexpr double kPriorLayoutError = 0.07, kPriorLayoutWeight = 4.0;
constexpr double kPriorRunError = 0.05, kPriorRunWeight = 2.0;
constexpr double kPriorDoublings = 3.0, kPriorDistance = 1.0 / 3.0, kPriorLogSpread = 1.5;
constexpr int kMostScorings = 100, kMostHalvings = 20;
constexpr double kLongestStep = 1.0, kSettledLogs = 1e-4;  // of the logarithms

sim::LayoutErrors prior_errors() {
  sim::LayoutErrors prior;
  prior.error = kPriorLayoutError;
  prior.run = kPriorRunError;
  prior.doublings.fill(kPriorDoublings);
  prior.recompute = prior.sharding = kPriorDistance;
  return prior;
}

VectorXd logs_of(sim::LayoutErrors errors) {
  VectorXd logs(kLayoutCount);
  for (Index k = 0; k < kLayoutCount; ++k)
    logs[k] = std::log(sim::layout_number(errors, static_cast<std::size_t>(k)));
  return logs;
}

sim::LayoutErrors errors_of(const VectorXd& logs) {
  sim::LayoutErrors errors;
  for (Index k = 0; k < kLayoutCount; ++k)
    sim::layout_number(errors, static_cast<std::size_t>(k)) = std::exp(logs[k]);
  return errors;
}

// What is maximised, with its slopes and their information (expected products).
struct Likelihood {
  double value = 0.0;
  VectorXd slopes = VectorXd::Zero(kLayoutCount);
  MatrixXd information = MatrixXd::Zero(kLayoutCount, kLayoutCount);

  void add(const Likelihood& other) {
    value += other.value, slopes += other.slopes, information += other.information;
  }

  Likelihood without(const Likelihood& part) const {
    return {value - part.value, slopes - part.slopes, information - part.information};
  }
};

Likelihood prior_at(const VectorXd& logs) {
  static const VectorXd center = logs_of(prior_errors());
  Likelihood prior;
  for (Index k = 0; k < kLayoutCount; ++k) {
    const double beyond = logs[k] - center[k];
    if (k < 2) {
      const double weight = k == 0 ? kPriorLayoutWeight : kPriorRunWeight,
                   square = std::exp(-2.0 * beyond);
      prior.value -= weight * (beyond + 0.5 * square);
      prior.slopes[k] = weight * (square - 1.0);
      prior.information(k, k) = 2.0 * weight;
    } else {
      constexpr double kPrecision = 1.0 / (kPriorLogSpread * kPriorLogSpread);
      prior.value -= 0.5 * kPrecision * beyond * beyond;
      prior.slopes[k] = -kPrecision * beyond;
      prior.information(k, k) = kPrecision;
    }
  }
  return prior;
}

// The likelihood of a study's residuals.
class StudyLikelihood {
 public:
  explicit StudyLikelihood(const SiteStudy& study) {
    const Index n = std::ssize(study.rows);
    residuals_.resize(n);
    given_.resize(n, n), steps_.resize(n, n);
    squares_.assign(sim::kLayoutNumbers - 2, MatrixXd::Zero(n, n));
    for (Index i = 0; i < n; ++i) {
      residuals_[i] = study.rows[static_cast<std::size_t>(i)].residual;
      for (Index j = 0; j < n; ++j) put(study, i, j);
    }
  }

  double value(const VectorXd& logs) const {
    const Eigen::LLT<MatrixXd> root(covariance(logs, layouts(logs)));
    return value(root, residuals_.dot(root.solve(residuals_)));
  }

  Likelihood at(const VectorXd& logs) const {
    const Index n = residuals_.size();
    const MatrixXd k = layouts(logs);
    const Eigen::LLT<MatrixXd> root(covariance(logs, k));
    const VectorXd solved = root.solve(residuals_);
    const double square = residuals_.dot(solved);
    const double degrees = sim::kStudentFreedom + static_cast<double>(n);
    Likelihood result;
    result.value = value(root, square);
    std::vector<MatrixXd> relative;  // C^-1 dC
    for (Index number = 0; number < kLayoutCount; ++number) {
      const MatrixXd slope = slope_of(number, logs, k);
      relative.push_back(root.solve(slope));
      const double moved = solved.dot(slope * solved);
      result.slopes[number] =
          0.5 * (degrees / (sim::kStudentFreedom + square) * moved - relative.back().trace());
    }
    for (Index a = 0; a < kLayoutCount; ++a) {
      const MatrixXd& one = relative[static_cast<std::size_t>(a)];
      for (Index b = 0; b <= a; ++b) {
        const MatrixXd& other = relative[static_cast<std::size_t>(b)];
        const double both = one.cwiseProduct(other.transpose()).sum();
        result.information(a, b) = result.information(b, a) =
            (0.5 * degrees * both - 0.5 * one.trace() * other.trace()) / (degrees + 2.0);
      }
    }
    return result;
  }

 private:
  void put(const SiteStudy& study, Index i, Index j) {
    const SiteRow& one = study.rows[static_cast<std::size_t>(i)];
    const SiteRow& other = study.rows[static_cast<std::size_t>(j)];
    const SitePriors& priors = study.priors;
    double given = 0.0;
    for (const auto& [key, words, value] : hwdb::kSiteEffects)
      given += std::pow(priors.spreads.*value, 2) * (one.slopes.*value) * (other.slopes.*value);
    steps_(i, j) = one.slopes.step * other.slopes.step;
    if (one.cell == other.cell) given += std::pow(priors.cells[one.cell], 2) * steps_(i, j);
    given_(i, j) = given;
    for (std::size_t k = 0; k < sim::kLayoutAxes; ++k)
      squares_[k](i, j) = std::pow(one.layout.log2[k] - other.layout.log2[k], 2);
    squares_[sim::kLayoutAxes](i, j) = one.layout.recompute != other.layout.recompute;
    squares_[sim::kLayoutAxes + 1](i, j) = one.layout.sharding != other.layout.sharding;
  }

  // What squares_[k] counts for: 1 / l^2, r^2, s^2.
  static double precision(std::size_t k, const VectorXd& logs) {
    const double number = logs[static_cast<Index>(k) + 2];
    return std::exp(k < sim::kLayoutAxes ? -2.0 * number : 2.0 * number);
  }

  // k(x_i, x_j), through the slopes of the step.
  MatrixXd layouts(const VectorXd& logs) const {
    MatrixXd square = MatrixXd::Zero(residuals_.size(), residuals_.size());
    for (std::size_t k = 0; k < squares_.size(); ++k) square += precision(k, logs) * squares_[k];
    return std::exp(2.0 * logs[0]) * steps_.array() * (-0.5 * square.array()).exp();
  }

  MatrixXd covariance(const VectorXd& logs, const MatrixXd& layouts) const {
    MatrixXd all = given_ + layouts;
    all.diagonal().array() += std::exp(2.0 * logs[1]);
    return all;
  }

  // d C / d ln of a number.
  MatrixXd slope_of(Index number, const VectorXd& logs, const MatrixXd& layouts) const {
    const Index n = residuals_.size();
    if (number == 0) return 2.0 * layouts;
    if (number == 1) return 2.0 * std::exp(2.0 * logs[1]) * MatrixXd::Identity(n, n);
    const auto k = static_cast<std::size_t>(number) - 2;
    const double sign = k < sim::kLayoutAxes ? 1.0 : -1.0;
    return sign * precision(k, logs) * layouts.cwiseProduct(squares_[k]);
  }

  double value(const Eigen::LLT<MatrixXd>& root, double square) const {
    const double degrees = sim::kStudentFreedom + static_cast<double>(residuals_.size());
    return -root.matrixLLT().diagonal().array().log().sum() -
           0.5 * degrees * std::log1p(square / sim::kStudentFreedom);
  }

  VectorXd residuals_;
  MatrixXd given_, steps_;         // of C; s_i s_j
  std::vector<MatrixXd> squares_;  // of the terms of d^2, without their numbers
};

using Studies = std::vector<StudyLikelihood>;

double value_at(const Studies& studies, const VectorXd& logs) {
  double value = prior_at(logs).value;
  for (const StudyLikelihood& study : studies) value += study.value(logs);
  return value;
}

std::vector<Likelihood> likelihoods_at(const Studies& studies, const VectorXd& logs,
                                       unsigned threads) {
  std::vector<Likelihood> likelihoods(studies.size());
  in_parallel(studies.size(), threads,
              [&](std::size_t s) { likelihoods[s] = studies[s].at(logs); });
  return likelihoods;
}

// With the prior.
Likelihood likelihood_at(const Studies& studies, const VectorXd& logs, unsigned threads) {
  Likelihood all = prior_at(logs);
  for (const Likelihood& study : likelihoods_at(studies, logs, threads)) all.add(study);
  return all;
}

// By Fisher scoring, no number by more than kLongestStep.
VectorXd step_of(const Likelihood& likelihood) {
  const VectorXd step = likelihood.information.ldlt().solve(likelihood.slopes);
  return step * std::min(1.0, kLongestStep / std::max(1e-300, step.lpNorm<Eigen::Infinity>()));
}

// The logarithms with the greatest likelihood.
VectorXd most_likely(const Studies& studies, VectorXd logs, unsigned threads) {
  for (int i = 0; i < kMostScorings; ++i) {
    const Likelihood all = likelihood_at(studies, logs, threads);
    VectorXd step = step_of(all);
    if (step.lpNorm<Eigen::Infinity>() < kSettledLogs) break;
    int halvings = 0;
    while (value_at(studies, logs + step) < all.value && ++halvings < kMostHalvings) step *= 0.5;
    if (halvings == kMostHalvings) break;
    logs += step;
  }
  return logs;
}

// Of the numbers: Efron and Stein's jackknife of their logarithms, times the numbers.
sim::LayoutErrors jackknife(const std::vector<VectorXd>& without, const VectorXd& logs) {
  const auto count = static_cast<double>(without.size());
  VectorXd mean = VectorXd::Zero(kLayoutCount), squares = VectorXd::Zero(kLayoutCount);
  for (const VectorXd& one : without) mean += one / count;
  for (const VectorXd& one : without) squares += (one - mean).cwiseAbs2();
  sim::LayoutErrors errors;
  for (Index k = 0; k < kLayoutCount; ++k)
    sim::layout_number(errors, static_cast<std::size_t>(k)) =
        std::exp(logs[k]) * std::sqrt(squares[k] * (count - 1.0) / count);
  return errors;
}

}  // namespace

LayoutFit layout_fit(const std::vector<SiteStudy>& studies, unsigned threads) {
  LayoutFit result;
  Studies telling;
  std::vector<std::size_t> places;  // among `studies`
  for (std::size_t s = 0; s < studies.size(); ++s) {
    if (studies[s].rows.size() < 2) continue;
    telling.emplace_back(studies[s]);
    places.push_back(s);
    result.runs += static_cast<int>(studies[s].rows.size());
  }
  result.studies = static_cast<int>(telling.size());
  const VectorXd logs = most_likely(telling, logs_of(prior_errors()), threads);
  result.errors = errors_of(logs);
  result.without.assign(studies.size(), result.errors);
  const Likelihood all = likelihood_at(telling, logs, threads);
  const std::vector<Likelihood> parts = likelihoods_at(telling, logs, threads);
  std::vector<VectorXd> without;
  for (std::size_t t = 0; t < telling.size(); ++t) {
    without.push_back(logs + step_of(all.without(parts[t])));
    result.without[places[t]] = errors_of(without[t]);
  }
  if (without.size() > 1) result.standard_errors = jackknife(without, logs);
  return result;
}

}  // namespace llmsim::calibrate
