// Summaries of samples: the arithmetic mean, the median (of an even number of values the mean of
// the two in the middle), the scatter; and how they are printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace llmsim::calibrate {

// Require at least one value.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

// Standard deviation of one value: squares over their number less one, 0 of a single value.
double scatter(const std::vector<double>& values);

// None of nothing.
std::optional<double> mean_if_any(const std::vector<double>& values);
std::optional<double> median_if_any(const std::vector<double>& values);

// "0.831", "1.2e+03": three digits.
std::string three_digits(double value);

}  // namespace llmsim::calibrate
