// A sweep or a validation as a chart.
//
// Of a sweep (any rows whose settings come before a column "feasible"): a value along one setting,
// a line for each combination of others, or a heat map of two settings.  What distinguishes rows is
// found: settings that vary, in the order of the columns, each taken where rows that were alike so
// far differ in it.  So dp, which follows from tp, is no line of its own.
//
// Of a validation: predicted against measured step times or peaks, with intervals, on two equal
// logarithmic axes; only runs that are scored.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/data_rows.h"

namespace llmsim::reports {

struct PlotRequest {
  std::string x{};      // empty: the first setting that varies, numbers first
  std::string y{};      // not empty: a heat map, with the values of this setting as its rows
  std::string value{};  // empty: tokens per second and device; of a validation the step time
  std::vector<std::string> by{};                             // empty: found
  std::vector<std::pair<std::string, std::string>> where{};  // rows with these texts alone
  bool log_x = false, log_y = false;  // log_x is on where numbers of x span a factor of 8
  std::string title{};                // empty: what is drawn
};

// Requires that the columns which the request names are there.  Throws Error naming the option or
// rows that cannot be drawn.
std::string plot(const DataRows& data, const PlotRequest& request);

}  // namespace llmsim::reports
