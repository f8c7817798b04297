// Errors of predictions by what runs have in common.
#pragma once

#include <vector>

#include "calibrate/residuals.h"
#include "reports/table.h"

namespace llmsim::reports {

// A row for each class; values that no run of a class has are none.
Table residuals_table(const std::vector<calibrate::Residual>& residuals);

}  // namespace llmsim::reports
