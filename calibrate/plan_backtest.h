// The back-test of the planner: what a search would have chosen, held against measured runs.
//
// A problem is what is left of a run when its layout is taken away (hwdb/runs/plan_query.h): model,
// devices, global batch, sequence length, framework, number format and all switches.  Runs of one
// study that agree in them share a problem; it is searched once, over every layout.
//
// (a) The search.  With t the predicted step time of a run's layout, which is predicted to keep the
// rules and to fit, and p that of the plan, the layout beats the plan where p / t - 1 > 1e-9; that
// is the regret of the search.  No layout inside of its space (sim/search/plan_query.h) may have
// one: such a run is missed, a bug.  A layout that lies outside shows a field
// that the space does not vary.
//
// (b) The order.  Of a problem with at least three layouts whose measured times are scored, of
// repeated runs the fastest: Spearman's rank correlation of predicted and measured step times
// (statistics.h), and what the layout that is predicted to be the fastest of them loses,
//
//   loss = t_measured(argmin t_predicted) / min t_measured - 1
//
// Whether a layout is predicted to fit does not matter here: it ran.
//
// (c) The choice.  Of a problem with measured times the speed-up t / p of the plan over the best
// measured layout, both predicted, and whether the two are alike: the same tp, pp, cp and ep.
//
// Values of a study are medians over its problems, those of all studies their means, so that each
// study counts once; counts are summed, and so is `alike`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/backtest.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/strategy/strategy.h"

namespace llmsim::calibrate {

// Problems with fewer layouts have no rank correlation.
inline constexpr std::size_t kRankedLayouts = 3;

// A measured run as the search sees it.
struct PlannedRun {
  std::string id;
  std::size_t problem = 0;  // index into PlanBacktest::problems
  sim::Strategy layout;
  std::optional<sim::Seconds> measured_time;   // where it is scored
  std::optional<sim::Seconds> predicted_time;  // none: it breaks a rule
  bool fits = false;                           // predicted to keep the rules and to fit
  std::vector<std::string> outside{};          // fields that no plan has so; empty: inside
  bool beats_plan = false;
  std::optional<double> regret{};  // of one that does; none: no plan fits

  bool missed() const { return beats_plan && outside.empty(); }
};

struct PlannedProblem {
  std::string group;
  std::vector<std::size_t> runs{};        // indices into PlanBacktest::runs
  std::optional<sim::Strategy> layout{};  // of the best plan; none: nothing fits
  std::optional<sim::Seconds> time{};     // predicted
  std::size_t layouts = 0;                // different ones with measured times
  std::optional<double> rank_correlation{}, loss{};
  std::optional<double> speedup{};
  std::optional<bool> alike{};
};

// One study, or all of them.
struct PlannedStudy {
  std::string group;
  int runs = 0;
  int problems = 0;
  int outside = 0;     // runs
  int beats_plan = 0;  // of these
  int missed = 0;      // runs inside that beat the plan
  int ranked = 0;      // problems with an order
  std::optional<double> rank_correlation{}, loss{};
  int compared = 0;  // problems with a speed-up
  int alike = 0;     // of them
  std::optional<double> speedup{};
};

// A field in which measured layouts lie outside of the searched space.
struct OutsideField {
  std::string field;
  int runs = 0;                    // that lie outside in it
  int beats_plan = 0;              // of them
  std::optional<double> regret{};  // the largest of these
  std::string run{};               // which has it
};

struct PlanBacktest {
  std::vector<PlannedRun> runs;          // in the order of the files
  std::vector<PlannedProblem> problems;  // in that of their first runs
  std::vector<PlannedStudy> studies;     // by name
  PlannedStudy overall;
  std::vector<OutsideField> outside;                         // by name
  std::vector<std::pair<std::string, std::string>> skipped;  // run and why nothing was planned
};

// Plans the problem of every measured run in scope, on so many threads (0: all cores), of which the
// answer does not depend.  `progress` counts problems; its calls do not overlap.
PlanBacktest plan_backtest(std::span<const hwdb::RunFile> files, Scope scope,
                           hwdb::RunResolver& resolver, unsigned threads = 0,
                           const Progress& progress = {});

}  // namespace llmsim::calibrate
