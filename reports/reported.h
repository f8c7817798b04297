// A published rate against the prediction of the same run: what it means under each way of
// counting FLOPs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/model/flops.h"
#include "sim/predict.h"

namespace llmsim::reports {

// As a study printed it; at least one of the first two.
struct Reported {
  std::optional<double> mfu{};                // 1.0 = 100 %, of the peak of the recipe's format
  std::optional<sim::FlopsPerSecond> rate{};  // per device
  std::string convention{};                   // by which it was counted; empty: not known
  std::optional<sim::Seconds> step_time{};    // measured
};

// The published value as a rate per device.
sim::FlopsPerSecond reported_rate(const sim::Prediction& prediction, const Reported& reported);

// One for each convention that may be behind the value: the named one, the one that a measured
// step time gives away, or all.  Throws Error for a convention that is not known.
std::vector<sim::Reading> readings(const sim::Prediction& prediction, const Reported& reported);

Table reported_table(const sim::Prediction& prediction, const Reported& reported);

// Why the rates of conventions differ for this model; empty where they differ by less than a tenth.
std::string counting_note(const sim::Prediction& prediction);

}  // namespace llmsim::reports
