// Rows of a site that differ in their micro-batch alone, for tests that work results out by hand.
#pragma once

#include "calibrate/site_fit.h"

namespace llmsim::calibrate {

// Layouts that lie `doublings` of the micro-batch apart have the covariance
// 0.2^2 exp(-(doublings / 2)^2 / 2); the site has no other effect, and noise 0.1.
inline SitePriors layout_priors() {
  SitePriors priors{.spreads = {.step = 1e-9, .memory = 1e-9, .network = 1e-9, .host = 1e-9},
                    .noise = 0.1,
                    .cells = {1e-9}};
  priors.layouts.error = 0.2;
  priors.layouts.doublings.fill(2.0);
  return priors;
}

inline SiteRow row_at(double doublings, double residual = 0.0) {
  SiteRow row{.residual = residual};
  row.layout.log2[static_cast<std::size_t>(sim::LayoutAxis::MicroBatch)] = doublings;
  return row;
}

}  // namespace llmsim::calibrate
