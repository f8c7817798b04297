#include "reports/validation.h"

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

using calibrate::Backtest;
using calibrate::BacktestRow;
using calibrate::GroupErrors;
using calibrate::OverallErrors;
using nlohmann::ordered_json;

Cell ratio(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }

// A number of runs; none instead of zero, so that the table shows where there is nothing.
Cell verdicts(int right, int all) { return all > 0 ? Cell(std::to_string(right) + "/" + std::to_string(all)) : Cell(); }

std::vector<Cell> group_cells(const GroupErrors& g) {
  return {g.group,
          count_or_none(g.scored),
          count_or_none(g.missed),
          ratio(g.median_abs_error),
          ratio(g.mape),
          ratio(g.bias),
          ratio(g.coverage),
          count_or_none(g.memory_scored),
          ratio(g.memory_median_abs_error),
          verdicts(g.outcomes_right, g.outcomes)};
}

std::vector<Cell> overall_cells(const OverallErrors& o) {
  return {std::string("all, each group once"),
          count_or_none(o.scored),
          count_or_none(o.missed),
          ratio(o.macro_median_abs_error),
          Cell(),
          Cell(),
          ratio(o.coverage),
          count_or_none(o.memory_scored),
          ratio(o.memory_macro_median_abs_error),
          verdicts(o.outcomes_right, o.outcomes)};
}

ordered_json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
}

template <class Quantity>
ordered_json base(const std::optional<Quantity>& value) {
  return value ? number(value->value()) : ordered_json(nullptr);
}

ordered_json text(const std::optional<std::string>& value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

ordered_json row_json(const BacktestRow& row) {
  ordered_json json;
  json["id"] = row.id;
  json["group"] = row.group;
  json["measured_s"] = base(row.measured_time);
  json["predicted_s"] = base(row.predicted_time);
  json["interval_s"] = nullptr;
  if (row.interval) json["interval_s"] = {base(std::optional(row.interval->first)), base(std::optional(row.interval->second))};
  json["measured_peak_bytes"] = base(row.measured_peak);
  json["predicted_peak_bytes"] = base(row.predicted_peak);
  json["measured_outcome"] = text(row.measured_outcome);
  json["predicted_outcome"] = text(row.predicted_outcome);
  json["skipped"] = text(row.skipped);
  json["warnings"] = row.warnings;
  return json;
}

ordered_json group_json(const GroupErrors& g) {
  return {{"group", g.group},
          {"n", g.scored},
          {"missed", g.missed},
          {"median_abs_error", number(g.median_abs_error)},
          {"mean_abs_error", number(g.mean_abs_error)},
          {"mape", number(g.mape)},
          {"bias", number(g.bias)},
          {"coverage", number(g.coverage)},
          {"memory_n", g.memory_scored},
          {"memory_median_abs_error", number(g.memory_median_abs_error)},
          {"outcomes", g.outcomes},
          {"outcomes_right", g.outcomes_right}};
}

ordered_json overall_json(const OverallErrors& o) {
  return {{"groups", o.groups},
          {"n", o.scored},
          {"missed", o.missed},
          {"macro_median_abs_error", number(o.macro_median_abs_error)},
          {"macro_mean_abs_error", number(o.macro_mean_abs_error)},
          {"coverage", number(o.coverage)},
          {"memory_n", o.memory_scored},
          {"memory_mape", number(o.memory_mape)},
          {"memory_macro_median_abs_error", number(o.memory_macro_median_abs_error)},
          {"outcomes", o.outcomes},
          {"outcome_accuracy", number(o.outcome_accuracy)},
          {"balanced_outcome_accuracy", number(o.balanced_outcome_accuracy)}};
}

}  // namespace

Table validation_table(const Backtest& backtest) {
  Table table("Predicted against measured runs", {{"group", "group", Kind::Text},
                                                  {"n", "runs", Kind::Integer},
                                                  {"missed", "missed", Kind::Integer},
                                                  {"median_abs_error", "median error", Kind::Percent},
                                                  {"mape", "mean error", Kind::Percent},
                                                  {"bias", "bias", Kind::Percent},
                                                  {"coverage", "in interval", Kind::Percent},
                                                  {"memory_n", "peaks", Kind::Integer},
                                                  {"memory_median_abs_error", "memory error", Kind::Percent},
                                                  {"outcomes_right", "verdicts right", Kind::Text}});
  for (const GroupErrors& group : backtest.groups) table.add_row(group_cells(group));
  table.add_row(overall_cells(backtest.overall));
  table.add_note(
      "median error: median of |ln(predicted / measured)| of the step time; mean error: mean of |predicted / measured - 1|; "
      "bias: mean of ln(predicted / measured).");
  table.add_note(
      "runs and peaks: those whose measured figure can be scored; missed: of them, without a prediction (counted as 100 %).");
  return table;
}

Table skipped_table(const Backtest& backtest) {
  Table table("Runs without a prediction",
              {{"id", "run", Kind::Text}, {"scored", "scored", Kind::Text}, {"skipped", "reason", Kind::Text}});
  for (const BacktestRow& row : backtest.rows) {
    const bool scored = row.scored.step_time || row.scored.memory || row.scored.outcome;
    if (row.skipped) table.add_row({row.id, std::string(scored ? "yes" : "no"), *row.skipped});
  }
  return table;
}

std::string validation_json(const Backtest& backtest) {
  ordered_json json;
  json["runs"] = ordered_json::array();
  for (const BacktestRow& row : backtest.rows) json["runs"].push_back(row_json(row));
  json["groups"] = ordered_json::array();
  for (const GroupErrors& group : backtest.groups) json["groups"].push_back(group_json(group));
  json["overall"] = overall_json(backtest.overall);
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmsim::reports
