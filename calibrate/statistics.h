// Summaries of samples: the arithmetic mean, and the median (of an even number of values the mean of the two in the middle).
#pragma once

#include <optional>
#include <vector>

namespace llmsim::calibrate {

// Require at least one value.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

// None of nothing.
std::optional<double> mean_if_any(const std::vector<double>& values);
std::optional<double> median_if_any(const std::vector<double>& values);

}  // namespace llmsim::calibrate
