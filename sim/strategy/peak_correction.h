// What measured peaks of a cluster say of the peaks of its other runs.
//
// With m a measured peak and p the predicted one of its kind (allocated, reserved, device),
//
//   ln m - ln p = a f(x) + g gaps + c context + noise
//
// where f says by how much more is allocated than is predicted, gaps and context are the logarithms
// of what the allocator's gaps and the driver's context are above their prediction, and a, g and c
// are the derivatives of ln p by them: 1, 0, 0 of allocated bytes.  All have mean 0; f is a
// Gaussian process over runs x (which run, and how it is laid out),
//
//   cov(f(x), f(y)) = site^2 + layout^2 e^-d(x, y),   d = sum_k w_k |x_k - y_k|
//
// so that a run says most of those that are laid out like it, and something of all others.  With S
// the covariance of the residuals r of measured peaks, and k that of a new run and each of them,
//
//   mean k S^-1 r,   variance cov(x, x) - k S^-1 k'
//
// One peak moves the prediction of its own run by v / (v + noise^2) of its residual, with
// v = site^2 + layout^2.
//
// Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, (2.25), (2.26).
#pragma once

#include <string>
#include <vector>

#include "sim/strategy/layout_ratio.h"

namespace llmsim::sim {

struct Strategy;
struct Transformer;

// What no layout of a run changes.
struct PeakProblem {
  std::string model;      // its sizes: "32x4096x11008"
  std::string trained;    // optimizer and adapters: "adamw", "adamw/lora"
  std::string precision;  // of GEMMs
  std::string framework, device;
  double log_seq_len = 0.0;  // to the base of 2
  bool operator==(const PeakProblem&) const = default;
};
PeakProblem peak_problem(const Transformer& model, const Strategy& strategy,
                         const std::string& framework, const std::string& device);

// d of what no layout changes, and of layouts.  Of doublings three count at most.
double peak_distance(const PeakProblem& one, const PeakProblem& other);
double peak_distance(const LayoutTraits& one, const LayoutTraits& other);

// a, g, c.
struct PeakSlopes {
  double allocated = 1.0, gaps = 0.0, context = 0.0;
  bool operator==(const PeakSlopes&) const = default;
};

// Standard deviations of logarithms.
//
// Those of layout and run are near the largest likelihood of 22 studies with four measured peaks or
// more, each study once; no command fits them, nor the weights of d.  Gaps and context are known
// within a factor of 1.6.  Site is what PredictionErrors::memory, the error of a run of an unknown
// study, leaves.
struct PeakSpreads {
  double site = 0.16, layout = 0.115, gaps = 0.5, context = 0.5;
  double run = 0.05;  // of the noise of one run
  bool operator==(const PeakSpreads&) const = default;
};

// One measured peak.
struct PeakObservation {
  std::string id;    // of its run
  std::string kind;  // "allocated", "reserved", "device"
  PeakProblem problem;
  LayoutTraits layout{};
  PeakSlopes slopes;
  double residual = 0.0;  // ln m - ln p
  double noise = 0.05;    // standard deviation; more than PeakSpreads::run of a run that is broken
  bool operator==(const PeakObservation&) const = default;
};

double peak_distance(const PeakObservation& one, const PeakObservation& other);

// What is applied to the runs of one problem.  Without observations nothing is.
struct PeakCorrection {
  // One observation: its layout, how far its problem is (e^-d), its slopes, (S^-1 r)_i.
  struct Sample {
    LayoutTraits layout{};
    double near = 1.0;
    PeakSlopes slopes;
    double weight = 0.0;
  };
  PeakSpreads spreads;
  std::vector<Sample> samples;
  std::vector<double> inverse;               // S^-1, row by row
  double log_gaps = 0.0, log_context = 0.0;  // means

  bool empty() const { return samples.empty(); }
  // Mean of f.
  double log_factor(const LayoutTraits& layout) const;
  // No more than log_factor() of such a layout, whatever it recomputes and however many virtual
  // stages it has.
  double least_log_factor(const LayoutTraits& layout) const;
  // Standard deviation of ln(m / p) of a peak that nobody has measured.
  double error(const LayoutTraits& layout, const PeakSlopes& slopes) const;
  // The same, far from all layouts that were measured: the largest.
  double largest_error(const PeakSlopes& slopes) const;
};

PeakCorrection peak_correction(const std::vector<PeakObservation>& observations,
                               const PeakSpreads& spreads, const PeakProblem& problem);

}  // namespace llmsim::sim
