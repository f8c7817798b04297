// The back-test of the planner for people and machines.
#pragma once

#include <string>

#include "calibrate/plan_backtest.h"
#include "reports/table.h"

namespace llmsim::reports {

// One row per study, and a last one for all: runs and problems, what the search missed, how well
// predictions order measured layouts, and how the plan compares with the best of these.
Table plan_backtest_table(const calibrate::PlanBacktest& backtest);

// The fields in which measured layouts lie outside of the searched space.
Table outside_table(const calibrate::PlanBacktest& backtest);

// Two rows for each run that the search missed: its layout and the plan, with predicted times.
Table missed_table(const calibrate::PlanBacktest& backtest);

// {"studies": [...], "overall": {...}, "outside": [...], "problems": [...], "runs": [...],
// "skipped": [...]}; times in seconds, null where there is no value.
std::string plan_backtest_json(const calibrate::PlanBacktest& backtest);

}  // namespace llmsim::reports
