// What a setting is worth, predicted against measured.
#pragma once

#include <string>

#include "calibrate/ablation.h"
#include "reports/table.h"

namespace llmsim::reports {

// One row per setting, then all of them, all with each study counting once, and what is scored apart: pairs, right signs of those
// that noise leaves a sign, errors of the ratio of step times and of peaks.
Table ablation_table(const calibrate::Ablations& ablations);

// One row per pair: values, ratios measured and predicted, error, verdict on the sign, runs.
Table ablation_rows_table(const calibrate::Ablations& ablations);

// {"settings": [...], "overall": {...}, "measured": {...}, "topology": {...}, "software": {...}, "pairs": [...]}; ratios are on /
// off, null where there is no figure.
std::string ablation_json(const calibrate::Ablations& ablations);

}  // namespace llmsim::reports
