// Back-tests for people and machines: predicted against measured runs.
#pragma once

#include <span>
#include <string>

#include "calibrate/ablation.h"
#include "calibrate/backtest.h"
#include "calibrate/count_comparison.h"
#include "calibrate/reliability.h"
#include "reports/table.h"

namespace llmsim::reports {

// One row per group, and a last one for all: scored runs, errors of the step time, coverage of the
// interval, error of the peak memory, verdicts.
Table validation_table(const calibrate::Backtest& backtest);

// Of runs in bins of the probability with which they are said to fit how many ran: of all studies,
// and of those that report runs that did and runs that did not.
Table reliability_table(const calibrate::Reliability& reliability);

// Runs without a prediction and the reasons.
Table skipped_table(const calibrate::Backtest& backtest);

// {"runs": [...], "groups": [...], "overall": {...}, "reliability": {...}}; times in seconds, sizes
// in bytes, null where there is no value.
std::string validation_json(const calibrate::Backtest& backtest);

// What a setting is worth, predicted against measured.

// One row per setting, then all of them, all with each study counting once, and the settings that
// are scored separately: pairs, right signs of those that noise leaves a sign, errors of the ratio
// of step times and of peaks.
Table ablation_table(const calibrate::Ablations& ablations);

// One row per pair: values, ratios measured and predicted, error, verdict on the sign, runs.
Table ablation_rows_table(const calibrate::Ablations& ablations);

// {"settings": [...], "overall": {...}, "measured": {...}, "topology": {...}, "software": {...},
// "pairs": [...]}; ratios are on / off, null where there is no value.
std::string ablation_json(const calibrate::Ablations& ablations);

// Counted against predicted values of training steps, a line each.

// The note says how many there are and how many differ.
Table count_comparison_table(std::span<const calibrate::CountComparison> comparisons);

// {"comparisons": [{"name", "predicted", "measured", "equal"}]}
std::string count_comparison_json(std::span<const calibrate::CountComparison> comparisons);

}  // namespace llmsim::reports
