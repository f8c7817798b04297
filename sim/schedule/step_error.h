// How wrong the predicted time of a step may be.
//
// ln(measured / predicted) has the standard deviation
//
//   sqrt(e^2 + d^2 + s^2 + c^2 + r^2 + (n N)^2 + (h H)^2 + (b B)^2)
//
//   e   uncertainty of the framework's efficiency (PredictionErrors, as all but d)
//   d   of the device's rate in training (Achieved::training_rate_error)
//   s   a cluster; with experts, expert or context ranks that of such runs
//   c   its runs on one device, in one framework and number format
//   r   one run
//   N   rate of a cluster's collectives, H its host's times, B its time between steps
//
// n, h and b are derivatives of the logarithm of the step time by those of the rate and the
// times: a run that hides its collectives does not depend on the network, one that waits for
// launches depends on the host alone.  With T the step, b and what layers expose of their own
// collectives are shares of it,
//
//   n = d ln T' / d ln rate - (tensor + context + expert exposed) / (T - bubble),  b = host / T
//
// and the exchange of weights and gradients (n) and the launches (h, where the device waits for
// any) are moved by 2 % in the shortest step that the passes allow, T' (StepSimulation::bound),
// whose pipeline need not be simulated.  Where layers hide some of their own collectives these are
// priced anew with the exchange.  Fitted, with the errors, to step times (calibrate/run_fit.h),
// there by differences of whole predictions.  Errors are taken to be independent of each other.
// Source: linear propagation of errors (JCGM 100:2008, 5.1), in logarithms.
#pragma once

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/step.h"

namespace llmsim::sim {

// d ln(step time) / d ln of
struct StepSlopes {
  double collectives = 0.0;  // the framework's collective_efficiency; 0 or less
  double hosts = 0.0;        // host.factor
  double between_steps = 0.0;
};

// Slopes whose errors are 0 are left at 0.  Requires a valid run with positive times.
StepSlopes step_slopes(const Run& run, const LayerPrices& prices, const StepTimes& step);

// Standard deviation of ln(measured / predicted step time).
double step_error(const Run& run, const StepSlopes& slopes);

}  // namespace llmsim::sim
