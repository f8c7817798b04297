// A plan for people: the ranking, why the winner wins, why others failed, what was assumed.  And
// for machines.
#pragma once

#include <string>

#include "reports/provenance.h"
#include "reports/table.h"
#include "sim/plan.h"

namespace llmsim::reports {

// A search with its outcome.  `plan.plans` may hold more strategies than are to be shown: they
// serve as the comparisons.
struct PlanAnswer {
  sim::PlanQuery query;
  sim::Plan plan;
  std::size_t shown = 10;   // rows of the ranking
  sim::Seconds duration{};  // wall clock of the search
  Provenance provenance;
};

// For people: ranking, comparison of the winner with the best plan of another mesh and of every
// other sharding, tp and pp, Pareto front, rejected strategies with the nearest miss of each rule,
// the query with its defaults.  CSV is the ranking alone; JSON has the keys of README.md, "plan".
std::string render(const PlanAnswer& answer, Format format, const Style& style = {});

// One line of a search without a plan: the rule that most strategies break, and what the nearest to
// fitting needs and has.
std::string why_nothing_fits(const sim::Plan& plan);

}  // namespace llmsim::reports
