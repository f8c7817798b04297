// How often to repeat a measurement, and what to say of the repeats.
//
// Times on a real machine have a hard floor and a long tail, so the reported value is the median.
// Its 95 % confidence interval needs no distribution: of n sorted times it reaches from number n/2
// - 0.98 sqrt(n) to number n/2 + 0.98 sqrt(n).  Repeats stop when half of that interval is within
// `precision` of the median, or when the budget is spent.
#pragma once

#include <functional>
#include <vector>

#include "sim/base/quantity.h"

namespace llmsim::runtime {

struct RepeatOptions {
  int warm_up = 2;  // not counted
  int least = 5;    // even where the budget is spent
  int most = 200;
  double precision = 0.02;  // of the median
  sim::Seconds budget{1.0};
};

struct Timing {
  sim::Seconds median{};
  sim::Seconds mean{};  // what a program pays that does the same again and again, tail included
  // 1.4826 median |t - median| / median: the standard deviation of normal noise.
  double spread = 0.0;
  double half_width = 0.0;  // half of the interval of the median, relative to it
  int repeats = 0;
  int calls = 1;  // that a repeat consists of
};

// Requires at least one time.
Timing summary(std::vector<sim::Seconds> times);

// `once` does the work and says how long it took.
Timing repeated(const std::function<sim::Seconds()>& once, const RepeatOptions& options);

}  // namespace llmsim::runtime
