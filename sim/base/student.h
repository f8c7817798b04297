// Student's t with four degrees of freedom: the distribution of errors of predictions.
//
// Its tails are heavy: studies far from all others are rare, but less rare than a normal
// distribution has them.  Both directions have a closed form, with s = t / sqrt(4 + t^2),
//
//   P(T <= t) = 1/2 + 3/4 (s - s^3 / 3)
//   t(p)      = sign(p - 1/2) 2 sqrt(cos(arccos(sqrt a) / 3) / sqrt a - 1),  a = 4 p (1 - p)
//
// Sources: Abramowitz & Stegun 26.7.4; W. T. Shaw, J. Computational Finance 9(4), 2006.
#pragma once

namespace llmsim::sim {

// P(T <= t).
double student_probability(double t);

// The t with P(T <= t) = p.  p strictly between 0 and 1.
double student_quantile(double p);

}  // namespace llmsim::sim
