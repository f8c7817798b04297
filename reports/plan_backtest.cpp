#include "reports/plan_backtest.h"

#include <optional>
#include <vector>

#include "reports/json.h"
#include "reports/strategy_text.h"

namespace llmsim::reports {
namespace {

using calibrate::OutsideField;
using calibrate::PlanBacktest;
using calibrate::PlannedProblem;
using calibrate::PlannedRun;
using calibrate::PlannedStudy;

std::vector<Cell> study_cells(const PlannedStudy& study) {
  return {study.group,
          count_or_none(study.runs),
          count_or_none(study.problems),
          std::int64_t{study.missed},
          count_or_none(study.outside),
          count_or_none(study.beats_plan),
          count_or_none(study.ranked),
          cell(study.rank_correlation),
          cell(study.loss),
          cell(study.speedup),
          study.compared > 0
              ? Cell(std::to_string(study.alike) + "/" + std::to_string(study.compared))
              : Cell()};
}

template <class Value>
Json value_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json seconds(const std::optional<sim::Seconds>& time) {
  return time ? Json(time->value()) : Json(nullptr);
}

Json study_json(const PlannedStudy& study) {
  return {{"group", study.group},
          {"n", study.runs},
          {"problems", study.problems},
          {"missed", study.missed},
          {"outside", study.outside},
          {"outside_faster", study.beats_plan},
          {"ranked", study.ranked},
          {"rank_correlation", value_or_null(study.rank_correlation)},
          {"loss", value_or_null(study.loss)},
          {"compared", study.compared},
          {"speedup", value_or_null(study.speedup)},
          {"alike", study.alike}};
}

Json outside_json(const OutsideField& field) {
  return {{"field", field.field},
          {"n", field.runs},
          {"faster", field.beats_plan},
          {"largest_regret", value_or_null(field.regret)},
          {"run", field.run.empty() ? Json(nullptr) : Json(field.run)}};
}

Json problem_json(const PlannedProblem& problem, const PlanBacktest& backtest) {
  Json runs = Json::array();
  for (const std::size_t i : problem.runs) runs.push_back(backtest.runs[i].id);
  return {{"group", problem.group},
          {"runs", runs},
          {"plan", problem.layout ? Json(strategy_text(*problem.layout)) : Json(nullptr)},
          {"plan_s", seconds(problem.time)},
          {"layouts", problem.layouts},
          {"rank_correlation", value_or_null(problem.rank_correlation)},
          {"loss", value_or_null(problem.loss)},
          {"speedup", value_or_null(problem.speedup)},
          {"alike", value_or_null(problem.alike)}};
}

Json planned_run_json(const PlannedRun& run) {
  return {{"id", run.id},
          {"problem", run.problem},
          {"layout", strategy_text(run.layout)},
          {"measured_s", seconds(run.measured_time)},
          {"predicted_s", seconds(run.predicted_time)},
          {"fits", run.fits},
          {"outside", run.outside},
          {"faster", run.beats_plan},
          {"regret", value_or_null(run.regret)}};
}

}  // namespace

Table plan_backtest_table(const PlanBacktest& backtest) {
  Table table("Planned against measured layouts", {{"group", "study", Kind::Text},
                                                   {"n", "runs", Kind::Integer},
                                                   {"problems", "plans", Kind::Integer},
                                                   {"missed", "missed", Kind::Integer},
                                                   {"outside", "outside", Kind::Integer},
                                                   {"outside_faster", "faster", Kind::Integer},
                                                   {"ranked", "ranked", Kind::Integer},
                                                   {"rank_correlation", "rank", Kind::Number},
                                                   {"loss", "loss", Kind::Percent},
                                                   {"speedup", "gain", Kind::Factor},
                                                   {"alike", "alike", Kind::Text}});
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
  Table table("Outside of the searched space", {{"field", "field", Kind::Text},
                                                {"n", "runs", Kind::Integer},
                                                {"faster", "faster", Kind::Integer},
                                                {"largest_regret", "by up to", Kind::Percent},
                                                {"run", "run", Kind::Text}});
  for (const OutsideField& field : backtest.outside) {
    table.add_row({field.field, std::int64_t{field.runs}, count_or_none(field.beats_plan),
                   cell(field.regret), field.run.empty() ? Cell() : Cell(field.run)});
  }
  return table;
}

Table missed_table(const PlanBacktest& backtest) {
  Table table("Missed by the search", {{"run", "run", Kind::Text},
                                       {"layout", "layout", Kind::Text},
                                       {"predicted_s", "step time", Kind::Seconds}});
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
  Json json;
  const auto add = [&](const char* key, const auto& list, const auto& row) {
    json[key] = Json::array();
    for (const auto& one : list) json[key].push_back(row(one));
  };
  add("studies", backtest.studies, study_json);
  json["overall"] = study_json(backtest.overall);
  add("outside", backtest.outside, outside_json);
  add("problems", backtest.problems,
      [&](const PlannedProblem& problem) { return problem_json(problem, backtest); });
  add("runs", backtest.runs, planned_run_json);
  add("skipped", backtest.skipped, [](const auto& run) {
    return Json{{"id", run.first}, {"reason", run.second}};
  });
  return text_of(json);
}

}  // namespace llmsim::reports
