// Values that are not known exactly: what follows from them, without random numbers, and the
// distribution of errors of predictions.
//
// An uncertain input is positive, and its logarithm is normal about that of the median:
//
//   x = median e^(s Z),   90 % of it between median e^(-1.645 s) and median e^(1.645 s)
//
// An output f of independent inputs has its estimate at their medians.  Each input alone, at its
// two ends, moves ln f down by d_i and up by u_i; errors add in squares:
//
//   f e^(-sqrt(sum d_i^2))  to  f e^(sqrt(sum u_i^2))
//
// which is exact for products of powers, and nearly so for a job's time and losses.  Source: linear
// propagation of errors (JCGM 100:2008, 5.1), in logarithms and separately on each side.
//
// Errors of predictions are of Student's t with four degrees of freedom.  Its tails are heavy:
// studies far from all others are rare, but less rare than a normal distribution has them.  Both
// directions have a closed form, with s = t / sqrt(4 + t^2),
//
//   P(T <= t) = 1/2 + 3/4 (s - s^3 / 3)
//   t(p)      = sign(p - 1/2) 2 sqrt(cos(arccos(sqrt a) / 3) / sqrt a - 1),  a = 4 p (1 - p)
//
// Sources: Abramowitz & Stegun 26.7.4; W. T. Shaw, J. Computational Finance 9(4), 2006.
#pragma once

#include <cmath>
#include <span>

namespace llmsim::sim {

// The probability inside an interval, and the distance of its limits from the median in standard
// deviations of a normal variable.
inline constexpr double kJobIntervalLevel = 0.9;
inline constexpr double kIntervalDeviations = 1.6448536;

// An input: its median and the standard deviation of its logarithm; 0: known exactly.
template <typename T>
struct Uncertain {
  T median{};
  double log_deviation = 0.0;

  T low() const { return median * std::exp(-kIntervalDeviations * log_deviation); }
  T high() const { return median * std::exp(kIntervalDeviations * log_deviation); }
};

// An output, or an input whose sides differ: the estimate and its 90 % interval.
template <typename T>
struct Estimate {
  T value{};
  T low{};
  T high{};
};

// The output while one input is at its ends, in either order.
struct OutputInterval {
  double one = 0.0;
  double other = 0.0;
};

// The estimate of an output that is `value` at all medians.  Requires value >= 0; a value of 0 or
// infinity is known exactly.
Estimate<double> combined(double value, std::span<const OutputInterval> intervals);

// The next value of a kind of which `values` were seen, with m and s the mean and the standard
// deviation (n - 1) of their logarithms: median e^m, deviation s sqrt(1 + 1/n).  Requires positive
// values, two at least.
Uncertain<double> pooled(std::span<const double> values);

// A value of which nine in ten lie between two positive ones, in either order: their geometric
// mean, and a deviation of |ln(a / b)| / (2 * 1.645).
Uncertain<double> between(double a, double b);

// The expected largest of n independent normal values of mean 0 and standard deviation 1; 0 of one.
//
//   4.91 (p^0.14 - (1 - p)^0.14),  p = (n - 3/8) / (n + 1/4)
//
// within 4 % of the exact 0.564, 1.424 and 2.344 of 2, 8 and 64.  Sources: Blom, "Statistical
// Estimates and Transformed Beta-Variables", 1958 (p); Joiner & Rosenblatt, J. Am. Stat. Assoc. 66,
// 1971 (the normal quantile as a lambda distribution).
double expected_largest(double n);

inline constexpr double kStudentFreedom = 4.0;

// P(T <= t) of Student's t.
double student_probability(double t);

// The t with P(T <= t) = p.  p strictly between 0 and 1.
double student_quantile(double p);

}  // namespace llmsim::sim
