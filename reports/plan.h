// A plan for people and for machines: the ranking, why the winner wins, why others
// failed, what was assumed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/job.h"
#include "reports/provenance.h"
#include "reports/run_changes.h"
#include "reports/step_detail.h"
#include "reports/table.h"
#include "sim/plan.h"
#include "sim/predict.h"

namespace llmsim::reports {

// The best plan on another number of devices, with the same global batch; none where nothing fits.
struct ScaledPlan {
  int num_devices = 1;
  std::optional<sim::Prediction> plan{};
};

// A search with its outcome.  `plan.plans` may hold more strategies than are to be shown: they
// serve as the comparisons.
struct PlanAnswer {
  sim::PlanQuery query;
  sim::Plan plan;
  std::size_t shown = 10;          // rows of the ranking
  bool verbose = false;            // for people: also what failed and what was assumed
  std::string command{};           // that predicts the winner
  std::optional<JobAnswer> job{};  // all steps of the winner
  std::optional<double> price{};   // USD of a device-hour
  std::vector<sim::SwitchWorth> assumed_switches{};  // of the winner
  // Of each plan, where they are ordered by it: the largest ratio of its step time to that of the
  // best plan, with any one property of the hardware better or worse than assumed.
  std::vector<double> regrets{};
  std::vector<RunChange> changes{};  // of the winner, with --sensitivity
  // For JSON: the winner's step in detail, and the same question on fewer and more devices.
  std::optional<StepDetail> step{};
  std::vector<ScaledPlan> scaling{};
  sim::Seconds duration{};  // wall clock of the search
  Provenance provenance;
};

// For people the screen of plan_screen.h.  CSV is the ranking alone; JSON has the
// keys of README.md, "plan".
std::string render(const PlanAnswer& answer, Format format, const Style& style = {});

// The price of a plan: USD for 10^9 tokens, of the whole job where there is one.  None without a
// price.  Requires a plan.
std::optional<double> usd_per_billion_tokens(const PlanAnswer& answer);

// One line for a search without a plan: the rule that most strategies break, and the memory that
// the nearest to fitting needs.
std::string why_nothing_fits(const sim::Plan& plan);

}  // namespace llmsim::reports
