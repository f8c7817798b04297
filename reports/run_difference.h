// Why one run is faster or needs less memory than another: what they say differently, the terms of
// the step, and the terms of the peak, side by side.
#pragma once

#include <string>

#include "reports/table.h"
#include "sim/predict.h"

namespace llmsim::reports {

struct RunDifference {
  std::string first_name, second_name;  // "a.json"
  sim::Prediction first, second;        // with step times
};

// Of model, hardware and strategy, fields that differ; terms of the step, of which the last line is
// the step; terms of the fullest device's peak, of which the last is what is needed.  Those that
// make more difference stand first.  CSV is the second table; JSON has the keys "first", "second",
// "settings", "time" and "memory".
std::string render(const RunDifference& difference, Format format, const Style& style = {});

}  // namespace llmsim::reports
