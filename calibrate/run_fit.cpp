#include "calibrate/run_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFreedom = 4.0;       // of the t distribution
constexpr double kStep = 0.01;         // of a numerical derivative
constexpr double kLongestStep = 0.3;   // of one coefficient in one iteration
constexpr int kMostHalvings = 5;       // of a step that does not lower the cost
constexpr double kSettled = 1e-4;      // a tenth of a thousandth of a value
constexpr double kLeastMisfit = 0.03;  // run-to-run noise

template <typename Work>
void in_parallel(std::size_t count, unsigned threads, Work work) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next = 0;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> pool;
  for (unsigned t = 1; t < threads; ++t) pool.emplace_back(loop);
  loop();
}

double log_error(const MeasuredRun& measured, const sim::Run& run) {
  return std::log(sim::predict(run).step_time.value() / measured.measured);
}

double value_of(const RunCoefficient& c, double shift) { return c.prior * std::exp(shift); }

sim::Run run_at(const MeasuredRuns& runs, const MeasuredRun& measured,
                const std::vector<double>& shifts) {
  sim::Run run = measured.run;
  for (const std::size_t k : measured.coefficients)
    set_value(run, runs.coefficients[k], value_of(runs.coefficients[k], shifts[k]));
  return run;
}

// A run that is fitted to: its weight, its residual and the derivatives by its own coefficients.
struct Row {
  const MeasuredRun* measured = nullptr;
  double weight = 0.0;  // v_g / n_g
  double residual = 0.0;
  std::vector<double> slopes;
};

std::vector<Row> rows_of(const MeasuredRuns& runs, const std::optional<std::size_t>& without) {
  std::vector<double> counts(runs.groups.size(), 0.0);
  for (const MeasuredRun& run : runs.runs) counts[run.group] += run.fitted_to ? 1.0 : 0.0;
  std::vector<Row> rows;
  for (const MeasuredRun& run : runs.runs) {
    if (!run.fitted_to || without == run.group) continue;
    const double n = counts[run.group];
    rows.push_back(
        {.measured = &run, .weight = std::min(1.0, n / 3.0) / n, .residual = 0.0, .slopes = {}});
  }
  return rows;
}

class Descent {
 public:
  Descent(const MeasuredRuns& runs, const RunFitOptions& options)
      : runs_(runs),
        threads_(options.threads),
        rows_(rows_of(runs, options.without)),
        shifts_(options.start) {
    shifts_.resize(runs.coefficients.size(), 0.0);
    for (Row& row : rows_) row.slopes.resize(row.measured->coefficients.size());
    evaluate(shifts_);
    misfit_ = options.misfit.value_or(typical_misfit());
  }

  void settle() {
    for (int i = 0; i < 12; ++i) {
      differentiate();
      if (!improve(full_step())) break;
    }
  }

  void renew_misfit() { misfit_ = typical_misfit(); }

  RunFit result() {
    differentiate();
    const MatrixXd covariance = curvature().inverse();
    RunFit fit{.shifts = shifts_, .deviations = {}, .misfit = misfit_};
    for (Eigen::Index k = 0; k < covariance.rows(); ++k)
      fit.deviations.push_back(std::sqrt(covariance(k, k)));
    return fit;
  }

 private:
  void evaluate(const std::vector<double>& shifts) {
    in_parallel(rows_.size(), threads_, [&](std::size_t i) {
      rows_[i].residual = log_error(*rows_[i].measured, run_at(runs_, *rows_[i].measured, shifts));
    });
  }

  void differentiate() {
    in_parallel(rows_.size(), threads_, [&](std::size_t i) {
      Row& row = rows_[i];
      const sim::Run run = run_at(runs_, *row.measured, shifts_);
      for (std::size_t j = 0; j < row.slopes.size(); ++j) {
        const std::size_t k = row.measured->coefficients[j];
        const RunCoefficient& c = runs_.coefficients[k];
        sim::Run moved = run;
        set_value(moved, c, value_of(c, shifts_[k] + kStep));
        row.slopes[j] = (log_error(*row.measured, moved) - row.residual) / kStep;
      }
    });
  }

  double robust_weight(double residual) const {
    return 1.0 / (1.0 + std::pow(residual / misfit_, 2) / kFreedom);
  }

  double cost(const std::vector<double>& shifts) const {
    double sum = 0.0;
    for (const Row& row : rows_)
      sum += row.weight * kFreedom * std::log1p(std::pow(row.residual / misfit_, 2) / kFreedom);
    for (std::size_t k = 0; k < shifts.size(); ++k)
      sum += std::pow(shifts[k] / runs_.coefficients[k].spread, 2);
    return sum;
  }

  MatrixXd curvature() const {
    const auto n = static_cast<Eigen::Index>(shifts_.size());
    MatrixXd a = MatrixXd::Zero(n, n);
    for (const Row& row : rows_) {
      const double weight = row.weight * robust_weight(row.residual) / (misfit_ * misfit_);
      const auto& ks = row.measured->coefficients;
      for (std::size_t i = 0; i < ks.size(); ++i) {
        for (std::size_t j = 0; j < ks.size(); ++j)
          a(static_cast<Eigen::Index>(ks[i]), static_cast<Eigen::Index>(ks[j])) +=
              weight * row.slopes[i] * row.slopes[j];
      }
    }
    for (Eigen::Index k = 0; k < n; ++k)
      a(k, k) += std::pow(runs_.coefficients[static_cast<std::size_t>(k)].spread, -2.0);
    return a;
  }

  VectorXd full_step() const {
    VectorXd b(static_cast<Eigen::Index>(shifts_.size()));
    for (std::size_t k = 0; k < shifts_.size(); ++k)
      b[static_cast<Eigen::Index>(k)] = shifts_[k] / std::pow(runs_.coefficients[k].spread, 2);
    for (const Row& row : rows_) {
      const double weight = row.weight * robust_weight(row.residual) / (misfit_ * misfit_);
      for (std::size_t j = 0; j < row.slopes.size(); ++j)
        b[static_cast<Eigen::Index>(row.measured->coefficients[j])] +=
            weight * row.slopes[j] * row.residual;
    }
    return -curvature().ldlt().solve(b).cwiseMax(-kLongestStep).cwiseMin(kLongestStep);
  }

  // Takes the longest of the step's halves that lowers the cost; false where none does or the step
  // is negligible.
  bool improve(const VectorXd& step) {
    if (step.size() == 0 || step.cwiseAbs().maxCoeff() < kSettled) return false;
    const double before = cost(shifts_);
    double part = 1.0;
    for (int halved = 0; halved < kMostHalvings; ++halved, part /= 2.0) {
      std::vector<double> moved = shifts_;
      for (std::size_t k = 0; k < moved.size(); ++k)
        moved[k] += part * step[static_cast<Eigen::Index>(k)];
      evaluate(moved);
      if (cost(moved) < before) {
        shifts_ = std::move(moved);
        return true;
      }
    }
    evaluate(shifts_);
    return false;
  }

  double typical_misfit() const {
    std::vector<double> sums(runs_.groups.size(), 0.0), counts(runs_.groups.size(), 0.0);
    for (const Row& row : rows_) {
      sums[row.measured->group] += row.residual * row.residual;
      counts[row.measured->group] += 1.0;
    }
    std::vector<double> misfits;
    for (std::size_t g = 0; g < sums.size(); ++g) {
      if (counts[g] > 0.0) misfits.push_back(std::sqrt(sums[g] / counts[g]));
    }
    if (misfits.empty()) return kLeastMisfit;
    const auto middle = misfits.begin() + static_cast<std::ptrdiff_t>(misfits.size() / 2);
    std::nth_element(misfits.begin(), middle, misfits.end());
    return std::max(kLeastMisfit, *middle);
  }

  const MeasuredRuns& runs_;
  unsigned threads_;
  std::vector<Row> rows_;
  std::vector<double> shifts_;
  double misfit_ = kLeastMisfit;
};

}  // namespace

RunFit run_fit(const MeasuredRuns& runs, const RunFitOptions& options) {
  Descent descent(runs, options);
  descent.settle();
  for (int i = 0; !options.misfit && i < 3; ++i) {
    descent.renew_misfit();
    descent.settle();
  }
  return descent.result();
}

std::vector<double> log_errors(const MeasuredRuns& runs, const std::vector<double>& shifts,
                               unsigned threads) {
  std::vector<double> errors(runs.runs.size());
  in_parallel(errors.size(), threads, [&](std::size_t i) {
    errors[i] = log_error(runs.runs[i], run_at(runs, runs.runs[i], shifts));
  });
  return errors;
}

}  // namespace llmsim::calibrate
