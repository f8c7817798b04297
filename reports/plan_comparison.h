// Plans of several questions side by side: numbers of devices, accelerators, precisions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/plan.h"
#include "reports/table.h"

namespace llmsim::reports {

struct ComparedPlan {
  std::vector<std::string> values;  // of the keys that differ
  PlanAnswer answer;                // as the question alone is answered
  // The best layout of the first question on this one's hardware: what an upgrade gives before
  // anyone lays the run out anew.  None where the questions differ otherwise.
  std::optional<sim::Prediction> same_layout{};
};

// Which of the plans that answer is the best: by the objective, with the fewest devices (then by
// the objective), or the last one.
enum class Goal { Objective, Smallest, Largest };

struct PlanComparison {
  std::vector<std::string> keys;  // "hardware", "gpus"
  std::vector<ComparedPlan> plans;
  sim::Objective objective = sim::Objective::Throughput;
  Goal goal = Goal::Objective;
  std::optional<sim::Seconds> deadline{};  // of the whole job; needs the jobs of the answers
};

// Whether something fits, and its job ends in time where there is a deadline.
bool answers(const PlanComparison& comparison, const PlanAnswer& answer);

// The plan that the objective prefers, of those that answer; none where nothing does.
const ComparedPlan* best_of(const PlanComparison& comparison);

// For people it has a row of values and a layout for each question; CSV has a row for each winner,
// as `plan` writes it; JSON {"keys", "best", "plans": [{"asked", ...}]} with the answer of each
// question under its values.
std::string render(const PlanComparison& comparison, Format format, const Style& style = {});

}  // namespace llmsim::reports
