#include "calibrate/mixed_model.h"

#include <fmt/format.h>
#include <Eigen/Dense>
#include <Eigen/SparseCholesky>
#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMostIterations = 300;
constexpr double kSettled = 1e-4;  // of a spread, in a share of it

double student_weight(double square, double spread) {
  return (sim::kStudentFreedom + 1.0) / (sim::kStudentFreedom + square / (spread * spread));
}

// A class's spread from the weighted squares of `count` members.
double renewed(const EffectClass& of, double squares, double count) {
  if (std::isinf(of.prior_weight)) return of.spread;
  const double prior = of.prior_weight * of.spread * of.spread;
  return std::sqrt((prior + squares) / (of.prior_weight + count));
}

using Factors = Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>>;

// Of the inverse of what was factored, L D L' in the order of `factors`, the entries where it or L
// has any, those of others undefined: from the last column on, of its rows i below j
//   inverse(i, j) = -sum over k > j of L(k, j) inverse(i, k)
//   inverse(j, j) = 1 / D(j) - sum over k > j of L(k, j) inverse(k, j)
// (Takahashi, Fagan and Chin 1973).  All that one observation's variance asks for is among them.
void invert_where_filled(const Factors& factors, MatrixXd& inverse) {
  const Eigen::SparseMatrix<double> lower = factors.matrixL().nestedExpression();
  using Column = Eigen::SparseMatrix<double>::InnerIterator;
  for (Index j = lower.cols() - 1; j >= 0; --j) {
    inverse(j, j) = 1.0 / factors.vectorD()[j];
    for (Column row(lower, j); row; ++row) {
      if (row.row() <= j) continue;
      double sum = 0.0;
      for (Column k(lower, j); k; ++k)
        if (k.row() > j) sum -= k.value() * inverse(row.row(), k.row());
      inverse(row.row(), j) = inverse(j, row.row()) = sum;
      inverse(j, j) -= row.value() * sum;
    }
  }
}

class ExpectationMaximisation {
 public:
  explicit ExpectationMaximisation(const MixedModel& model, const MixedFit* settled)
      : model_(model),
        effect_weights_(model.effects.size(), 1.0),
        weights_(model.observations.size(), 1.0),
        noise_(settled ? settled->noise : model.noise.spread) {
    for (const EffectClass& c : model.classes) spreads_.push_back(c.spread);
    if (settled) spreads_ = settled->spreads;
  }

  void iterate(bool keep_spreads) {
    for (int i = 0; i < kMostIterations; ++i) {
      const VectorXd before = mean_;
      solve();
      if (keep_spreads && i > 4 && (mean_ - before).lpNorm<Eigen::Infinity>() < kSettled) break;
      reweigh();
      if (!keep_spreads && renew() < kSettled && i > 3) break;
    }
    solve();
  }

  MixedFit result() const {
    MixedFit fit{.means = {mean_.begin(), mean_.end()},
                 .covariance = {},
                 .spreads = spreads_,
                 .noise = noise_};
    const MatrixXd all = factors_.solve(MatrixXd::Identity(mean_.size(), mean_.size()));
    for (Index k = 0; k < all.rows(); ++k)
      fit.covariance.emplace_back(all.row(k).begin(), all.row(k).end());
    return fit;
  }

 private:
  void solve() {
    const Index n = static_cast<Index>(model_.effects.size());
    std::vector<Eigen::Triplet<double>> entries;
    VectorXd sums = VectorXd::Zero(n);
    const auto add = [&](std::size_t j, std::size_t k, double value) {
      entries.emplace_back(static_cast<int>(j), static_cast<int>(k), value);
    };
    for (std::size_t i = 0; i < model_.observations.size(); ++i) {
      const Observation& o = model_.observations[i];
      const double weight = weights_[i] / (noise_ * noise_);
      for (const auto& [j, x] : o.slopes) {
        sums[static_cast<Index>(j)] += weight * x * o.value;
        for (const auto& [k, z] : o.slopes) add(j, k, weight * x * z);
      }
    }
    for (std::size_t k = 0; k < model_.effects.size(); ++k) {
      const double spread = spreads_[model_.effects[k]];
      add(k, k, effect_weights_[k] / (spread * spread));
    }
    // Most effects are of one study, and meet those of no other.
    Eigen::SparseMatrix<double> precision(n, n);
    precision.setFromTriplets(entries.begin(), entries.end());
    factors_.compute(precision);
    mean_ = factors_.solve(sums);
    inverse_.resize(n, n);
    invert_where_filled(factors_, inverse_);
  }

  // Of two effects that one observation has, or of one with itself.
  double covariance(std::size_t j, std::size_t k) const {
    const auto& order = factors_.permutationP().indices();
    return inverse_(order[static_cast<Index>(j)], order[static_cast<Index>(k)]);
  }

  double variance_of(const Slopes& slopes) const {
    double sum = 0.0;
    for (const auto& [j, x] : slopes) {
      for (const auto& [k, z] : slopes) sum += x * z * covariance(j, k);
    }
    return sum;
  }

  double square_of(std::size_t effect) const {
    const double mean = mean_[static_cast<Index>(effect)];
    return mean * mean + covariance(effect, effect);
  }

  double square_of(const Observation& o) const {
    double rest = o.value;
    for (const auto& [k, x] : o.slopes) rest -= x * mean_[static_cast<Index>(k)];
    return rest * rest + variance_of(o.slopes);
  }

  void reweigh() {
    for (std::size_t k = 0; k < effect_weights_.size(); ++k) {
      const std::size_t c = model_.effects[k];
      if (model_.classes[c].student) effect_weights_[k] = student_weight(square_of(k), spreads_[c]);
    }
    for (std::size_t i = 0; i < weights_.size() && model_.noise.student; ++i)
      weights_[i] = student_weight(square_of(model_.observations[i]), noise_);
  }

  // The largest change of a spread.
  double renew() {
    std::vector<double> squares(spreads_.size(), 0.0), counts(spreads_.size(), 0.0);
    for (std::size_t k = 0; k < model_.effects.size(); ++k) {
      squares[model_.effects[k]] += effect_weights_[k] * square_of(k);
      counts[model_.effects[k]] += 1.0;
    }
    double change = 0.0;
    const auto move = [&](double& spread, double to) {
      change = std::max(change, std::abs(to / spread - 1.0));
      spread = to;
    };
    for (std::size_t c = 0; c < spreads_.size(); ++c)
      move(spreads_[c], renewed(model_.classes[c], squares[c], counts[c]));
    double noise = 0.0;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      noise += weights_[i] * square_of(model_.observations[i]);
    move(noise_, renewed(model_.noise, noise, static_cast<double>(weights_.size())));
    return change;
  }

  const MixedModel& model_;
  std::vector<double> effect_weights_;  // l
  std::vector<double> weights_;         // w
  std::vector<double> spreads_;
  double noise_;
  VectorXd mean_;
  Factors factors_;
  MatrixXd inverse_;  // of the precision, in the order of the factors, where those have entries
};

}  // namespace

double MixedFit::deviation(std::size_t effect) const {
  return std::sqrt(covariance[effect][effect]);
}

double MixedFit::mean_of(const Slopes& slopes) const {
  double sum = 0.0;
  for (const auto& [k, x] : slopes) sum += x * means[k];
  return sum;
}

double MixedFit::variance_of(const Slopes& slopes) const {
  double sum = 0.0;
  for (const auto& [j, x] : slopes) {
    for (const auto& [k, z] : slopes) sum += x * z * covariance[j][k];
  }
  return sum;
}

MixedFit fit(const MixedModel& model, const MixedFit* settled) {
  ExpectationMaximisation fitting(model, settled);
  fitting.iterate(settled != nullptr);
  return fitting.result();
}

std::string group_shifts_text(std::string_view of, const std::map<std::string, double>& shifts) {
  constexpr double kNegligible = 0.005;
  std::vector<std::pair<double, std::string_view>> strong;
  for (const auto& [group, shift] : shifts)
    if (std::abs(shift) >= kNegligible) strong.emplace_back(shift, group);
  std::ranges::sort(
      strong, [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });

  std::string text = std::string(of) + std::to_string(shifts.size()) + " groups";
  const char* separator = ": ";
  for (const auto& [shift, group] : strong) {
    text += fmt::format("{}{} {:+.1f} %", separator, group, 100.0 * shift);
    separator = ", ";
  }
  return text;
}

}  // namespace llmsim::calibrate
