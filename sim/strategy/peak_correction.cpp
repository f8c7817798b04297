#include "sim/strategy/peak_correction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {
namespace {

constexpr double kDoubling = 0.15;      // of the micro-batch and of the sequence
constexpr double kMostDoublings = 3.0;  // that count

// w, by LayoutTrait.
constexpr std::array<double, kLayoutTraits> kTraitWeights = {
    0.12,       // tensor ranks
    0.12,       // stages
    0.12,       // context ranks
    0.12,       // expert ranks
    0.40,       // sharded parameters
    kDoubling,  // micro-batch
    0.40,       // recomputation
    0.06,       // virtual stages
};

struct ProblemWeight {
  std::string PeakProblem::*part;
  double weight;
};
constexpr ProblemWeight kProblemWeights[] = {{&PeakProblem::model, 0.15},
                                             {&PeakProblem::trained, 0.60},
                                             {&PeakProblem::precision, 0.15},
                                             {&PeakProblem::framework, 0.15},
                                             {&PeakProblem::device, 0.05}};

double doublings(double one, double other) {
  return std::min(kMostDoublings, std::abs(one - other));
}

// That a search bounds before it knows them.
bool is_chosen_last(std::size_t trait) {
  return trait == static_cast<std::size_t>(LayoutTrait::Recomputation) ||
         trait == static_cast<std::size_t>(LayoutTrait::VirtualStages);
}

double squared(double x) { return x * x; }

// Of f in two runs, e^-d of each other.
double shared(const PeakSpreads& spreads, double near) {
  return squared(spreads.site) + squared(spreads.layout) * near;
}

// Of two residuals without their noise.
double covariance(const PeakSpreads& spreads, double near, const PeakSlopes& one,
                  const PeakSlopes& other) {
  return one.allocated * other.allocated * shared(spreads, near) +
         one.gaps * other.gaps * squared(spreads.gaps) +
         one.context * other.context * squared(spreads.context);
}

// The inverse of a positive definite matrix of n rows, by Gauss and Jordan without pivots.
std::vector<double> inverted(std::vector<double> matrix, std::size_t n) {
  std::vector<double> inverse(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) inverse[i * n + i] = 1.0;
  for (std::size_t k = 0; k < n; ++k) {
    const double pivot = matrix[k * n + k];
    for (std::size_t j = 0; j < n; ++j) matrix[k * n + j] /= pivot, inverse[k * n + j] /= pivot;
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = matrix[i * n + k];
      if (i == k || factor == 0.0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i * n + j] -= factor * matrix[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
  return inverse;
}

std::vector<double> covariances(const std::vector<PeakObservation>& all,
                                const PeakSpreads& spreads) {
  const std::size_t n = all.size();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const PeakObservation &one = all[i], &other = all[j];
      matrix[i * n + j] =
          covariance(spreads, std::exp(-peak_distance(one, other)), one.slopes, other.slopes) +
          (i == j ? squared(one.noise) : 0.0);
    }
  }
  return matrix;
}

// Of a peak that shares `with(sample)` with each sample.
template <class Shared>
double deviation(const PeakCorrection& correction, const PeakSlopes& slopes, Shared with) {
  const PeakSpreads& spreads = correction.spreads;
  const std::size_t n = correction.samples.size();
  std::vector<double> k(n);
  for (std::size_t i = 0; i < n; ++i)
    k[i] = covariance(spreads, with(correction.samples[i]), slopes, correction.samples[i].slopes);
  double variance = covariance(spreads, 1.0, slopes, slopes) + squared(spreads.run);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) variance -= k[i] * correction.inverse[i * n + j] * k[j];
  return std::sqrt(std::max(variance, squared(spreads.run)));
}

}  // namespace

PeakProblem peak_problem(const Transformer& model, const Strategy& strategy,
                         const std::string& framework, const std::string& device) {
  const auto by = [](int size) { return "x" + std::to_string(size); };
  return {
      .model = std::to_string(model.num_layers) + by(model.hidden_size) + by(model.ffn_size) +
               (model.moe ? by(model.moe->num_experts) : ""),
      .trained = std::string(name_of(strategy.optimizer)) + (strategy.adapters ? "+adapters" : ""),
      .precision = name_of(strategy.precision),
      .framework = framework,
      .device = device,
      .log_seq_len = std::log2(std::max(1, model.seq_len))};
}

double peak_distance(const PeakProblem& one, const PeakProblem& other) {
  double sum = kDoubling * doublings(one.log_seq_len, other.log_seq_len);
  for (const auto& [part, weight] : kProblemWeights)
    if (one.*part != other.*part) sum += weight;
  return sum;
}

double peak_distance(const LayoutTraits& one, const LayoutTraits& other) {
  double sum = 0.0;
  for (std::size_t k = 0; k < kLayoutTraits; ++k)
    sum += kTraitWeights[k] * doublings(one[k], other[k]);
  return sum;
}

double peak_distance(const PeakObservation& one, const PeakObservation& other) {
  return peak_distance(one.problem, other.problem) + peak_distance(one.layout, other.layout);
}

double PeakCorrection::log_factor(const LayoutTraits& layout) const {
  double sum = 0.0;
  for (const Sample& sample : samples)
    sum += sample.weight * sample.slopes.allocated *
           shared(spreads, sample.near * std::exp(-peak_distance(layout, sample.layout)));
  return sum;
}

double PeakCorrection::least_log_factor(const LayoutTraits& layout) const {
  double sum = 0.0;
  for (const Sample& sample : samples) {
    LayoutTraits nearest = layout;
    for (std::size_t k = 0; k < kLayoutTraits; ++k)
      if (is_chosen_last(k)) nearest[k] = sample.layout[k];
    const double weight = sample.weight * sample.slopes.allocated,
                 most = sample.near * std::exp(-peak_distance(nearest, sample.layout));
    sum += weight * shared(spreads, weight > 0.0 ? 0.0 : most);
  }
  return sum;
}

double PeakCorrection::error(const LayoutTraits& layout, const PeakSlopes& slopes) const {
  return deviation(*this, slopes, [&](const Sample& sample) {
    return sample.near * std::exp(-peak_distance(layout, sample.layout));
  });
}

double PeakCorrection::largest_error(const PeakSlopes& slopes) const {
  return deviation(*this, slopes, [](const Sample&) { return 0.0; });
}

PeakCorrection peak_correction(const std::vector<PeakObservation>& observations,
                               const PeakSpreads& spreads, const PeakProblem& problem) {
  const std::size_t n = observations.size();
  PeakCorrection correction{.spreads = spreads, .samples = {}, .inverse = {}};
  correction.inverse = inverted(covariances(observations, spreads), n);
  for (std::size_t i = 0; i < n; ++i) {
    const PeakObservation& of = observations[i];
    double weight = 0.0;
    for (std::size_t j = 0; j < n; ++j)
      weight += correction.inverse[i * n + j] * observations[j].residual;
    correction.log_gaps += weight * of.slopes.gaps * squared(spreads.gaps);
    correction.log_context += weight * of.slopes.context * squared(spreads.context);
    correction.samples.push_back({.layout = of.layout,
                                  .near = std::exp(-peak_distance(problem, of.problem)),
                                  .slopes = of.slopes,
                                  .weight = weight});
  }
  return correction;
}

}  // namespace llmsim::sim
