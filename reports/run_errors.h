// Each measured run with the errors of its prediction.
#pragma once

#include <vector>

#include "calibrate/backtest.h"
#include "calibrate/residuals.h"
#include "reports/table.h"

namespace llmsim::reports {

// Runs with a scored value, worst first: by the largest of
//
//   |ln(predicted / measured)| of the step time and of the peak memory, as far as they are scored
//   calibrate::kMissedError, where a scored value has no prediction or the verdict is wrong
//
// Values that are not scored are left out; columns without any are hidden from people.
Table run_errors_table(const calibrate::Backtest& backtest);

// Errors of predictions by what runs have in common: a row for each class; values that no run of a
// class has are none.
Table residuals_table(const std::vector<calibrate::Residual>& residuals);

}  // namespace llmsim::reports
