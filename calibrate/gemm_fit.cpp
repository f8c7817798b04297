#include "calibrate/gemm_fit.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::GemmCoefficients;
using sim::GemmMachine;
using sim::Seconds;

constexpr std::int64_t kLarge = 1024;

struct FittedCoefficient {
  const char* name;
  Belief GemmPrior::*prior;
  double most;
  void (*set)(GemmCoefficients&, double);
};

const FittedCoefficient kCoefficients[] = {
    {"max_efficiency", &GemmPrior::max_efficiency, INFINITY,
     [](GemmCoefficients& c, double v) { c.max_efficiency = v; }},
    {"k_half", &GemmPrior::k_half, INFINITY, [](GemmCoefficients& c, double v) { c.k_half = v; }},
    {"wave_quantisation", &GemmPrior::wave_quantisation, 1.0,
     [](GemmCoefficients& c, double v) { c.wave_quantisation = v; }},
    {"kernel_time_s", &GemmPrior::kernel_time, INFINITY,
     [](GemmCoefficients& c, double v) { c.kernel_time = Seconds(v); }},
    {"weight_gradient_factor", &GemmPrior::weight_gradient_factor, INFINITY,
     [](GemmCoefficients& c, double v) { c.weight_gradient_factor = v; }},
    {"transposed_factor", &GemmPrior::transposed_factor, INFINITY,
     [](GemmCoefficients& c, double v) { c.transposed_factor = v; }},
};

double free_value(const FittedCoefficient& coefficient, double value) {
  return std::isfinite(coefficient.most) ? std::log(value / (coefficient.most - value))
                                         : std::log(value);
}

struct Quantisation {
  Seconds launch{};
  double scale = 0.0;
};

Seconds predicted(const GemmSample& sample, const GemmMachine& machine,
                  const Quantisation& quantisation) {
  const Seconds gemm = gemm_time(sample.gemm, machine);
  if (sample.quantised <= 0.0) return gemm;
  return gemm + quantisation.launch +
         quantisation.scale * sim::Bytes(3.0 * sample.quantised) / machine.bandwidth;
}

double log_error(const GemmSample& sample, const GemmMachine& machine,
                 const Quantisation& quantisation) {
  return std::log(predicted(sample, machine, quantisation) / sample.time);
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// The parameters of one fit: coefficients that are not held, and the quantisation of low-precision
// inputs.
class GemmParameters {
 public:
  GemmParameters(const GemmMachine& machine, const GemmPrior& prior,
                 std::span<const GemmSample> samples)
      : machine_(machine), prior_(prior), samples_(samples) {
    for (const FittedCoefficient& coefficient : kCoefficients) add(coefficient);
    quantises_ = samples.front().quantised > 0.0;
    if (quantises_) {
      parameters_.push_back({"quantisation launch", 1e-5, 0.0});
      parameters_.push_back({"quantisation scale", 2.0, 0.0});
    }
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::size_t num_free() const { return free_.size(); }
  std::size_t count() const { return samples_.size() + free_.size(); }

  GemmMachine machine(std::span<const double> values) const {
    GemmMachine machine = machine_;
    for (std::size_t i = 0; i < free_.size(); ++i) free_[i]->set(machine.coefficients, values[i]);
    return machine;
  }

  void residuals(std::span<const double> values, std::span<double> out) const {
    const GemmMachine trial = machine(values);
    Quantisation quantisation;
    if (quantises_) quantisation = {Seconds(values[free_.size()]), values[free_.size() + 1]};
    for (std::size_t i = 0; i < samples_.size(); ++i)
      out[i] = log_error(samples_[i], trial, quantisation);
    for (std::size_t i = 0; i < free_.size(); ++i)
      out[samples_.size() + i] = prior_residual(*free_[i], values[i]);
  }

 private:
  void add(const FittedCoefficient& coefficient) {
    const Belief& belief = prior_.*coefficient.prior;
    if (belief.spread <= 0.0) return coefficient.set(machine_.coefficients, belief.value);
    free_.push_back(&coefficient);
    parameters_.push_back({coefficient.name, belief.value, 0.0, coefficient.most});
  }

  double prior_residual(const FittedCoefficient& coefficient, double value) const {
    const Belief& belief = prior_.*coefficient.prior;
    return kUsualMisfit * (free_value(coefficient, value) - free_value(coefficient, belief.value)) /
           belief.spread;
  }

  GemmMachine machine_;
  GemmPrior prior_;
  std::span<const GemmSample> samples_;
  std::vector<const FittedCoefficient*> free_;
  std::vector<Parameter> parameters_;
  bool quantises_ = false;
};

GemmFit result_of(const GemmParameters& problem, const LeastSquaresFit& solution,
                  std::span<const GemmSample> samples) {
  GemmFit fit;
  std::vector<double> values;
  for (const FittedValue& value : solution.values) values.push_back(value.value);
  fit.coefficients = problem.machine(values).coefficients;
  // Few shapes may agree by chance: errors are those of the usual misfit at least.
  const double inflation = std::max(1.0, kUsualMisfit / solution.residual_deviation);
  fit.values.assign(solution.values.begin(),
                    solution.values.begin() + static_cast<std::ptrdiff_t>(problem.num_free()));
  for (FittedValue& value : fit.values) value.standard_error *= inflation;
  fit.samples = samples.size();
  std::vector<double> all(solution.residuals.begin(),
                          solution.residuals.begin() + static_cast<std::ptrdiff_t>(samples.size()));
  std::vector<double> large;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const sim::Operator& gemm = samples[i].gemm;
    if (std::min({gemm.m, gemm.n, gemm.k}) >= kLarge) large.push_back(all[i]);
  }
  fit.rms = root_mean_square(all);
  if (!large.empty()) fit.rms_large = root_mean_square(large);
  return fit;
}

}  // namespace

GemmFit fit_gemm(const GemmMachine& machine, const GemmPrior& prior,
                 std::span<const GemmSample> samples, const LeastSquaresOptions& options) {
  if (samples.empty())
    throw Error("fit: no measured GEMMs; add measurements of the subject \"matmul\"");
  const GemmParameters problem(machine, prior, samples);
  const LeastSquaresFit solution = least_squares(
      problem.parameters(), problem.count(),
      [&](std::span<const double> values, std::span<double> out) {
        problem.residuals(values, out);
      },
      options);
  return result_of(problem, solution, samples);
}

GemmPrior prior_from(const GemmFit& fit, double spread) {
  GemmPrior prior;
  prior.max_efficiency.value = fit.coefficients.max_efficiency;
  prior.k_half = {fit.coefficients.k_half, spread};
  prior.wave_quantisation = {fit.coefficients.wave_quantisation, spread};
  prior.kernel_time = {fit.coefficients.kernel_time.value(), spread};
  return prior;
}

std::vector<double> gemm_log_errors(const GemmMachine& machine,
                                    std::span<const GemmSample> samples) {
  std::vector<double> errors;
  for (const GemmSample& sample : samples) errors.push_back(log_error(sample, machine, {}));
  return errors;
}

}  // namespace llmsim::calibrate
