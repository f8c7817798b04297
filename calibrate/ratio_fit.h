// Errors of predicted ratios of step times, by what layouts differ in (strategy/layout_ratio.h of
// sim): fitted to studies that measured several layouts of one problem.
//
// A problem is what is left of a run without its layout: its study, model, devices, framework and
// all switches.  Of problem p and study c, with the traits x_k of a run's layout,
//
//   ln measured - ln predicted = a_p + sum_k (b_k + u_ck) x_k + e
//
// a hierarchical model (mixed_model.h): a_p is what runs of a problem have in common and cancels in
// their ratios, b_k the bias of a trait, u_ck what studies differ in, e the noise of a run.
// Predictions are those of the fit without the study (run_fit.h).  A trait's error is the spread of
// u_k with the standard error of b_k.
//
// Prior of b_k: 0 with a deviation of 5 %, so that a trait which one study moves stays near it; of
// the spreads of u_k 5 %, of the noise 3 %.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/run_fit.h"
#include "sim/strategy/layout_ratio.h"

namespace llmsim::calibrate {

struct TraitFit {
  double bias = 0.0, standard_error = 0.0;
  double spread = 0.0;  // between studies
  int studies = 0;      // with runs of a problem that differ in the trait

  double error() const;   // both together
  bool is_clear() const;  // the bias is two standard errors from zero; else none is stated
};

struct RatioFit {
  std::array<TraitFit, sim::kLayoutTraits> traits{};  // by LayoutTrait
  double run = 0.0;
  int problems = 0, studies = 0, runs = 0;  // with several layouts
};

RatioFit ratio_fit(const MeasuredRuns& runs, const RunFit& fit);

// The rows of hwdb/facts/coefficients.json; their fitted_from begins with kRunFit.
std::vector<hwdb::Coefficient> fitted_rows(const RatioFit& fit);

}  // namespace llmsim::calibrate
