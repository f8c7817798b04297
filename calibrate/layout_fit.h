// Fits what predictions of layouts miss (sim/strategy/layout_errors.h) to studies.
//
// Each study is a site (site_fit.h) whose residuals r are those of the fit to the other studies
// (run_fit.h).  With C the covariance of its n rows
//
//   C_ij = s_i s_j (step^2 + cell^2 [one cell] + k(x_i, x_j)) + memory^2 m_i m_j
//          + network^2 n_i n_j + host^2 h_i h_j + run^2 [i = j]
//
// of which all but k and run are given, r is of the multivariate Student's t with nu = 4 degrees of
// freedom: a study in which all is more, or less, certain weighs as such.  The numbers are those of
// the greatest
//
//   sum over studies of ln t_nu(r; C)
//     - n_e / 2 (ln e^2 + e_0^2 / e^2) - n_r / 2 (ln run^2 + run_0^2 / run^2)
//     - 1/2 sum of ((ln l - ln l_0) / 1.5)^2
//
// whose priors are weak: e_0 = 7 % that counts as four effects, run_0 = 5 % as two runs, each
// length l three doublings, each distance r and s a third, both known within a factor of 4.5.
// Found by Fisher scoring in the logarithms of the numbers.  Standard errors, and what learning
// curves use for a study (learning_curve.h), come from leaving out each study in turn: one step of
// the scoring from the fit to all (jackknife).
//
// Sources: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, 5.4.1; Lange,
// Little & Taylor, J. Am. Stat. Assoc. 84 (1989), the information of the multivariate t; Efron &
// Stein, Ann. Stat. 9 (1981), the jackknife; Pregibon, Ann. Stat. 9 (1981), by one step.
#pragma once

#include <vector>

#include "calibrate/site_fit.h"
#include "sim/strategy/layout_errors.h"

namespace llmsim::calibrate {

// A study as a site: rows whose residuals are those of the fit to the other studies.
struct SiteStudy {
  std::vector<SiteRow> rows;
  SitePriors priors;  // `noise` and `layouts` of a site whose layouts do not differ
};

struct LayoutFit {
  sim::LayoutErrors errors, standard_errors;
  std::vector<sim::LayoutErrors> without;  // by study: fitted to the others
  int studies = 0, runs = 0;               // of at least two runs, which tell something
};

// `threads` 0: all cores.
LayoutFit layout_fit(const std::vector<SiteStudy>& studies, unsigned threads = 0);

}  // namespace llmsim::calibrate
