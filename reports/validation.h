// Back-tests for people and machines: predicted against measured runs.
#pragma once

#include <string>

#include "calibrate/backtest.h"
#include "reports/table.h"

namespace llmsim::reports {

// One row per group, and a last one for all: scored runs, errors of the step time, coverage of the interval, error of the peak
// memory, verdicts.
Table validation_table(const calibrate::Backtest& backtest);

// Runs without a prediction and the reasons.
Table skipped_table(const calibrate::Backtest& backtest);

// {"runs": [...], "groups": [...], "overall": {...}}; times in seconds, sizes in bytes, null where there is no figure.
std::string validation_json(const calibrate::Backtest& backtest);

}  // namespace llmsim::reports
