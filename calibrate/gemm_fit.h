// Fits the coefficients of GEMMs (sim/cost/kernels.h) to measured times.
//
// Minimises the sum of squared  ln(predicted / measured)  with Huber weights (least_squares.h),
// plus one term for each prior:
//
//   (0.08 (u - u0) / spread)^2,   u = ln value, or logit value for wave_quantisation; 0.08 is the
//                                 usual misfit of one shape
//
// so that a handful of shapes moves what it can and leaves the rest where the architecture had it.
// Standard errors assume a misfit of 0.08 at least.  Low-precision formats are measured with the
// quantisation of their input: such a sample costs  launch + scale * 3 bytes * elements / bandwidth
// on top; both are fitted together with the coefficients and dropped, since the simulator has an
// operator of its own for quantisation.
#pragma once

#include <span>

#include "calibrate/least_squares.h"
#include "sim/cost/kernels.h"

namespace llmsim::calibrate {

struct GemmSample {
  sim::Operator gemm;
  sim::Seconds time;
  double quantised = 0.0;  // elements of the input quantised within `time`
};

// What is known of a coefficient before the measurements.  Spread is in ln or
// logit; 0 holds the value.
struct Belief {
  double value = 0.0;
  double spread = 0.0;
};

struct GemmPrior {
  Belief max_efficiency{0.75, 1.0};
  Belief k_half{100.0, 1.0};
  Belief wave_quantisation{0.25, 1.0};
  Belief kernel_time{4e-6, 0.5};  // s
  Belief weight_gradient_factor{0.94, 0.0};
  Belief transposed_factor{1.0, 0.0};
};

struct GemmFit {
  sim::GemmCoefficients coefficients;
  std::vector<FittedValue> values;  // those that were not held, named by their keys
  double rms = 0.0;                 // of ln(predicted / measured), all samples
  // m >= 1024, n and k >= 1024; none where there are no such samples.
  std::optional<double> rms_large;
  std::size_t samples = 0;
};

// The coefficients of `machine` are the start of what is not in the prior.  Throws
// Error for no samples.
GemmFit fit_gemm(const sim::GemmMachine& machine, const GemmPrior& prior,
                 std::span<const GemmSample> samples, const LeastSquaresOptions& options = {});

// A prior that holds or loosens around what another fit found: every spread is `spread`, but
// max_efficiency keeps its own.
GemmPrior prior_from(const GemmFit& fit, double spread);

// ln(predicted / measured) of every sample, for a machine as it is.
std::vector<double> gemm_log_errors(const sim::GemmMachine& machine,
                                    std::span<const GemmSample> samples);

}  // namespace llmsim::calibrate
