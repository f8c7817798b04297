// Counted against predicted figures of training steps, a line each.
#pragma once

#include <span>
#include <string>

#include "calibrate/count_comparison.h"
#include "reports/table.h"

namespace llmsim::reports {

// The note says how many there are and how many differ.
Table count_comparison_table(std::span<const calibrate::CountComparison> comparisons);

// {"comparisons": [{"name", "predicted", "measured", "equal"}]}
std::string count_comparison_json(std::span<const calibrate::CountComparison> comparisons);

}  // namespace llmsim::reports
