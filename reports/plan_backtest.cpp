#include "reports/plan_backtest.h"

#include <vector>

#include "reports/json.h"
#include "reports/result_text.h"

namespace llmsim::reports {
namespace {

using calibrate::OutsideField;
using calibrate::PlanBacktest;
using calibrate::PlannedProblem;
using calibrate::PlannedRun;
using calibrate::PlannedStudy;

Cells study_cells(const PlannedStudy& study) {
  return Cells({study.group, count_or_none(study.runs), count_or_none(study.problems),
                std::int64_t{study.missed}, count_or_none(study.outside),
                count_or_none(study.beats_plan), count_or_none(study.ranked),
                cell(study.rank_correlation), cell(study.loss), cell(study.speedup),
                study.compared > 0
                    ? Cell(std::to_string(study.alike) + "/" + std::to_string(study.compared))
                    : Cell()});
}

Json study_json(const PlannedStudy& study) {
  return {{"group", study.group},
          {"n", study.runs},
          {"problems", study.problems},
          {"missed", study.missed},
          {"outside", study.outside},
          {"outside_faster", study.beats_plan},
          {"ranked", study.ranked},
          {"rank_correlation", or_null(study.rank_correlation)},
          {"loss", or_null(study.loss)},
          {"compared", study.compared},
          {"speedup", or_null(study.speedup)},
          {"alike", study.alike}};
}

Json outside_json(const OutsideField& field) {
  return {{"field", field.field},
          {"n", field.runs},
          {"faster", field.beats_plan},
          {"largest_regret", or_null(field.regret)},
          {"run", or_null(!field.run.empty(), field.run)}};
}

Json problem_json(const PlannedProblem& problem, const PlanBacktest& backtest) {
  const auto id_of = [&](std::size_t i) { return backtest.runs[i].id; };
  return {{"group", problem.group},
          {"runs", list_json(problem.runs, id_of)},
          {"plan", problem.layout ? Json(strategy_text(*problem.layout)) : Json()},
          {"plan_s", or_null(problem.time)},
          {"layouts", problem.layouts},
          {"rank_correlation", or_null(problem.rank_correlation)},
          {"loss", or_null(problem.loss)},
          {"speedup", or_null(problem.speedup)},
          {"alike", or_null(problem.alike)}};
}

Json planned_run_json(const PlannedRun& run) {
  return {{"id", run.id},
          {"problem", run.problem},
          {"layout", strategy_text(run.layout)},
          {"measured_s", or_null(run.measured_time)},
          {"predicted_s", or_null(run.predicted_time)},
          {"fits", run.fits},
          {"outside", run.outside},
          {"faster", run.beats_plan},
          {"regret", or_null(run.regret)}};
}

}  // namespace

Table plan_backtest_table(const PlanBacktest& backtest) {
  Table table("Planned against measured layouts",
              {as_text("group", "study"), as_integer("n", "runs"), as_integer("problems", "plans"),
               as_integer("missed"), as_integer("outside"), as_integer("outside_faster", "faster"),
               as_integer("ranked"), as_number("rank_correlation", "rank"), in_percent("loss"),
               as_factor("speedup", "gain"), as_text("alike")});
  for (const PlannedStudy& study : backtest.studies) table.add_row(study_cells(study));
  table.add_row(study_cells(backtest.overall));
  table.hide("ranked");
  table.add_note(
      "missed: runs whose layout the search tries, predicted faster than its plan: a bug.");
  table.add_note("outside: runs whose layout it does not try; faster: of them, than the plan.");
  table.add_note("rank: Spearman's of the times, of " + std::to_string(backtest.overall.ranked) +
                 " problems with three measured layouts or more.");
  table.add_note("loss: measured time of the one that is predicted best, over the measured best.");
  table.add_note(
      "gain: plan over the best measured layout, predicted; alike: same tp, pp, cp, ep.");
  return table;
}

Table outside_table(const PlanBacktest& backtest) {
  Table table("Outside of the searched space",
              {as_text("field"), as_integer("n", "runs"), as_integer("faster"),
               in_percent("largest_regret", "by up to"), as_text("run")});
  for (const OutsideField& field : backtest.outside) {
    table.add_row({field.field, std::int64_t{field.runs}, count_or_none(field.beats_plan),
                   cell(field.regret), field.run.empty() ? Cell() : Cell(field.run)});
  }
  return table;
}

Table missed_table(const PlanBacktest& backtest) {
  Table table("Missed by the search",
              {as_text("run"), as_text("layout"), in_seconds("predicted_s", "step time")});
  for (const PlannedRun& run : backtest.runs) {
    if (!run.missed()) continue;
    const PlannedProblem& problem = backtest.problems[run.problem];
    table.add_row({run.id, strategy_text(run.layout), cell(run.predicted_time)});
    table.add_row({std::string("  its plan"),
                   problem.layout ? strategy_text(*problem.layout) : "nothing fits",
                   cell(problem.time)});
  }
  return table;
}

std::string plan_backtest_json(const PlanBacktest& backtest) {
  const auto problem = [&](const PlannedProblem& one) { return problem_json(one, backtest); };
  const auto skipped = [](const auto& run) {
    return Json{{"id", run.first}, {"reason", run.second}};
  };
  return text_of({{"studies", list_json(backtest.studies, study_json)},
                  {"overall", study_json(backtest.overall)},
                  {"outside", list_json(backtest.outside, outside_json)},
                  {"problems", list_json(backtest.problems, problem)},
                  {"runs", list_json(backtest.runs, planned_run_json)},
                  {"skipped", list_json(backtest.skipped, skipped)}});
}

}  // namespace llmsim::reports
