// Results that no real machine gives: a sign of a wrong coefficient, or of a wrong figure in a record.
//
// Each is one line that names the figure, its limit, and what to look at.
#pragma once

#include <string>
#include <vector>

#include "sim/prediction.h"

namespace llmsim::sim {

// A hardware rate above the peak, or above what the device's best measured GEMMs reach; memory traffic above the data sheet's
// bandwidth; more devices than the named system has, or devices that it does not have.
std::vector<std::string> implausible_figures(const Prediction& prediction);

// A measured step that does more than the peak, or that takes less than a third or more than three times of what is predicted.
// The prediction must have a step time.
std::vector<std::string> implausible_measurement(const Prediction& prediction, Seconds measured);

}  // namespace llmsim::sim
