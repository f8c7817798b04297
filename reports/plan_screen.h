// A plan for people: one screen of 100 columns.
//
// The winner with its time, memory and what it waits for; the best plan of each kind; what others
// lose; the command that predicts the winner.  The Pareto front, what failed and what was assumed
// come on request.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/plan.h"
#include "reports/table.h"

namespace llmsim::reports {

// The plans of the ranking that are to be shown.
std::span<const sim::Prediction> shown_plans(const PlanAnswer& answer);

// The strategy that came closest to keeping a rule; null where none is known.
const sim::NearestMiss* nearest_miss(const sim::Plan& plan, const std::string& rule);

// Whether it says how much memory is needed and there.
bool is_about_memory(const sim::NearestMiss& miss);

std::vector<Table> plan_screen(const PlanAnswer& answer);

}  // namespace llmsim::reports
