// Summaries of samples: the arithmetic mean, the median (of an even number of values the mean of
// the two in the middle), the scatter, the correlation of ranks; and how they are printed.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llmsim::calibrate {

// Require at least one value.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

// Standard deviation of one value: squares over their number less one, 0 of a single value.
double scatter(const std::vector<double>& values);

// The least value at or below which a share p of all weight lies.  Pairs of a value and its weight,
// of which one at least is positive; p from 0 to 1.
double weighted_quantile(std::vector<std::pair<double, double>> weighted, double p);

// None of nothing.
std::optional<double> mean_if_any(const std::vector<double>& values);
std::optional<double> median_if_any(const std::vector<double>& values);

// ln(predicted / measured), none where one of them is missing.
template <class Quantity>
std::optional<double> log_ratio(const std::optional<Quantity>& measured,
                                const std::optional<Quantity>& predicted) {
  if (!measured || !predicted) return std::nullopt;
  return std::log(*predicted / *measured);
}

// Spearman's rank correlation of pairs (x, y): with a and b the ranks of x and y, from 1, equal
// values having the mean of their ranks, the correlation of Pearson of the ranks,
//
//   sum (a - mean a) (b - mean b) / sqrt(sum (a - mean a)^2  sum (b - mean b)^2)
//
// 1: one order, -1: the opposite one.  None where all values of one side are equal, or there are
// none.  Requires as many x as y.
// Source: Spearman, Am. J. Psychol. 15 (1904).
std::optional<double> rank_correlation(const std::vector<double>& x, const std::vector<double>& y);

// The variance of a group's values around their mean or a fit, and its degrees of freedom.
struct GroupVariance {
  double variance = 0.0, degrees = 1.0;
};

// Of groups whose true variances differ as a scaled inverse chi-square distribution says: its
// degrees of freedom nu, as many values as one group's variance is known by before it has any.
// With e = ln s^2 - psi(d / 2) + ln(d / 2) of each of n groups
//
//   mean of (e - mean e)^2 n / (n - 1) - psi'(d / 2)  =  psi'(nu / 2)
//
// at most 100: groups that do not differ.  Requires two groups and positive variances.
// Source: Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004), article 3, section 6.2.
double shared_degrees(const std::vector<GroupVariance>& groups);

// "0.831", "1.2e+03": three digits.
std::string three_digits(double value);

// Student's t with four degrees of freedom and a scale of its own on either side of zero.
//
//   density 2 / (a + b) f(z / a) for z < 0 and 2 / (a + b) f(z / b) for z >= 0,
//
// f the density of t_4.  a and b are those of the greatest likelihood.  The tails of t_4 are heavy:
// a few values far out widen their side far less than they would move an empirical quantile.
// Quantiles: P(z < 0) = a / (a + b), and those of t_4 (sim/base/uncertainty.h).

struct TwoPieceStudent {
  double below = 1.0;  // a
  double above = 1.0;  // b

  double quantile(double p) const;
};

// Of values with a weight each; scales between 0.05 and 20.  Without values: 1 and 1.
TwoPieceStudent fit_two_piece(const std::vector<std::pair<double, double>>& weighted);

}  // namespace llmsim::calibrate
