#include "reports/validation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/json.h"

namespace llmsim::reports {
namespace {

using calibrate::Backtest;
using calibrate::BacktestRow;
using calibrate::GroupErrors;
using calibrate::OverallErrors;
using nlohmann::ordered_json;

// "right/all"; none of nothing.
Cell share(int right, int all) {
  return all > 0 ? Cell(std::to_string(right) + "/" + std::to_string(all)) : Cell();
}

std::vector<Cell> group_cells(const GroupErrors& g) {
  return {g.group,
          count_or_none(g.scored),
          count_or_none(g.missed),
          cell(g.median_abs_error),
          cell(g.mape),
          cell(g.bias),
          cell(g.coverage),
          count_or_none(g.memory_scored),
          cell(g.memory_median_abs_error),
          cell(g.memory_coverage),
          share(g.outcomes_right, g.outcomes)};
}

std::vector<Cell> overall_cells(const OverallErrors& o) {
  return {std::string("all, each group once"),
          count_or_none(o.scored),
          count_or_none(o.missed),
          cell(o.macro_median_abs_error),
          Cell(),
          Cell(),
          cell(o.coverage),
          count_or_none(o.memory_scored),
          cell(o.memory_macro_median_abs_error),
          cell(o.memory_coverage),
          share(o.outcomes_right, o.outcomes)};
}

ordered_json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
}

template <class Quantity>
ordered_json base(const std::optional<Quantity>& value) {
  return value ? number(value->value()) : ordered_json(nullptr);
}

template <class Quantity>
ordered_json ends(const std::optional<std::pair<Quantity, Quantity>>& interval) {
  if (!interval) return nullptr;
  return {number(interval->first.value()), number(interval->second.value())};
}

ordered_json text(const std::optional<std::string>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json row_json(const BacktestRow& row) {
  ordered_json json;
  json["id"] = row.id;
  json["group"] = row.group;
  json["measured_s"] = base(row.measured_time);
  json["predicted_s"] = base(row.predicted_time);
  json["interval_s"] = ends(row.interval);
  json["measured_peak_bytes"] = base(row.measured_peak);
  json["predicted_peak_bytes"] = base(row.predicted_peak);
  json["peak_interval_bytes"] = ends(row.peak_interval);
  json["fit_probability"] = number(row.fit_probability);
  json["measured_outcome"] = text(row.measured_outcome);
  json["predicted_outcome"] = text(row.predicted_outcome);
  json["skipped"] = text(row.skipped);
  json["scored"] = ordered_json::array();
  if (row.scored.step_time) json["scored"].push_back("step_time");
  if (row.scored.memory) json["scored"].push_back("memory");
  if (row.scored.outcome) json["scored"].push_back("outcome");
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
          {"memory_coverage", number(g.memory_coverage)},
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
          {"memory_coverage", number(o.memory_coverage)},
          {"outcomes", o.outcomes},
          {"outcome_accuracy", number(o.outcome_accuracy)},
          {"balanced_outcome_accuracy", number(o.balanced_outcome_accuracy)},
          {"brier_score", number(o.brier_score)}};
}

using calibrate::AblationErrors;
using calibrate::AblationPair;
using calibrate::Ablations;
using nlohmann::ordered_json;

std::vector<Cell> cells(const AblationErrors& e) {
  return {e.setting,
          count_or_none(e.pairs),
          share(e.right, e.decided),
          cell(e.sign_accuracy()),
          cell(e.median_error),
          cell(e.worst_error),
          count_or_none(e.memory_pairs),
          cell(e.memory_median_error)};
}

const char* verdict(const AblationPair& pair) {
  if (!pair.measured_time) return "";
  if (!pair.predicted_time) return "not predicted";
  if (!pair.decides()) return "within noise";
  return pair.right() ? "right" : "wrong";
}

ordered_json errors_json(const AblationErrors& e) {
  return {{"setting", e.setting},
          {"pairs", e.pairs},
          {"decided", e.decided},
          {"sign_right", e.right},
          {"sign_accuracy", number(e.sign_accuracy())},
          {"median_ratio_error", number(e.median_error)},
          {"worst_ratio_error", number(e.worst_error)},
          {"memory_pairs", e.memory_pairs},
          {"memory_median_ratio_error", number(e.memory_median_error)}};
}

ordered_json pair_json(const AblationPair& pair) {
  return {{"setting", pair.setting},
          {"group", pair.group},
          {"off", pair.off},
          {"on", pair.on},
          {"off_id", pair.off_id},
          {"on_id", pair.on_id},
          {"measured_ratio", number(pair.measured_time)},
          {"predicted_ratio", number(pair.predicted_time)},
          {"ratio_error", number(pair.time_error())},
          {"noise", pair.noise},
          {"computed", pair.computed},
          {"verdict", verdict(pair)},
          {"measured_peak_ratio", number(pair.measured_peak)},
          {"predicted_peak_ratio", number(pair.predicted_peak)},
          {"peak_ratio_error", number(pair.peak_error())}};
}

}  // namespace

Table validation_table(const Backtest& backtest) {
  Table table("Predicted against measured runs",
              {{"group", "group", Kind::Text},
               {"n", "runs", Kind::Integer},
               {"missed", "missed", Kind::Integer},
               {"median_abs_error", "median error", Kind::Percent},
               {"mape", "mean error", Kind::Percent},
               {"bias", "bias", Kind::Percent},
               {"coverage", "in interval", Kind::Percent},
               {"memory_n", "peaks", Kind::Integer},
               {"memory_median_abs_error", "memory error", Kind::Percent},
               {"memory_coverage", "in interval", Kind::Percent},
               {"outcomes_right", "verdicts right", Kind::Text}});
  for (const GroupErrors& group : backtest.groups) table.add_row(group_cells(group));
  table.add_row(overall_cells(backtest.overall));
  table.add_note(
      "median error: median of |ln(predicted / measured)| of the step time; mean error: mean of "
      "|predicted / measured - 1|; "
      "bias: mean of ln(predicted / measured).");
  table.add_note(
      "runs and peaks: those whose measured figure can be scored; missed: of them, without a "
      "prediction (counted as 100 %).");
  if (backtest.overall.brier_score)
    table.add_note(
        "verdicts: a run is said to fit where that is more likely than not; Brier score " +
        significant(*backtest.overall.brier_score, 3) +
        ", the mean square of the probability less what came (0 or 1).");
  return table;
}

Table skipped_table(const Backtest& backtest) {
  Table table("Runs without a prediction", {{"id", "run", Kind::Text},
                                            {"scored", "scored", Kind::Text},
                                            {"skipped", "reason", Kind::Text}});
  for (const BacktestRow& row : backtest.rows) {
    const bool scored = row.scored.step_time || row.scored.memory || row.scored.outcome;
    if (row.skipped) table.add_row({row.id, std::string(scored ? "yes" : "no"), *row.skipped});
  }
  return table;
}

Json backtest_json(const Backtest& backtest) {
  ordered_json json;
  json["runs"] = ordered_json::array();
  for (const BacktestRow& row : backtest.rows) json["runs"].push_back(row_json(row));
  json["groups"] = ordered_json::array();
  for (const GroupErrors& group : backtest.groups) json["groups"].push_back(group_json(group));
  json["overall"] = overall_json(backtest.overall);
  return json;
}

std::string validation_json(const Backtest& backtest) {
  return backtest_json(backtest).dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Table ablation_table(const Ablations& ablations) {
  Table table("What a setting is worth: ratios of runs that differ in one setting",
              {{"setting", "setting", Kind::Text},
               {"pairs", "pairs", Kind::Integer},
               {"sign_right", "signs right", Kind::Text},
               {"sign_accuracy", "of them", Kind::Percent},
               {"median_ratio_error", "median error", Kind::Percent},
               {"worst_ratio_error", "worst", Kind::Percent},
               {"memory_pairs", "memory pairs", Kind::Integer},
               {"memory_median_ratio_error", "memory error", Kind::Percent}});
  for (const AblationErrors& errors : ablations.settings) table.add_row(cells(errors));
  table.add_row(cells(ablations.switched));
  table.add_row(cells(ablations.all));
  const bool some_computed = ablations.measured.pairs < ablations.all.pairs;
  if (some_computed) table.add_row(cells(ablations.measured));
  table.add_row({std::string("all, each study and setting once"), Cell(), Cell(),
                 cell(ablations.study_sign_accuracy), cell(ablations.study_median_error), Cell(),
                 Cell(), Cell()});
  for (const AblationErrors* apart : {&ablations.topology, &ablations.software}) {
    if (apart->pairs + apart->memory_pairs > 0) table.add_row(cells(*apart));
  }
  table.add_note(
      "error: |ln(predicted ratio / measured ratio)| of step times with and without the setting; "
      "memory: of peaks. Signs count "
      "where the measured ratio is outside the noise that the study states (twice), the rounding "
      "of its figures, and 2 %.");
  table.add_note(
      "Switched: on or off, one kind or another; the others are amounts, such as the size of a "
      "micro-batch.");
  table.add_note(
      "Not part of the sums above them: topology (tensor, pipeline and data ranks on the same "
      "devices) and software (releases of "
      "one framework).");
  if (some_computed)
    table.add_note(
        "Measured times: without studies whose times lie on straight lines over the batch to a "
        "millionth. Those of machines do "
        "not; those of another simulator do.");
  return table;
}

Table ablation_rows_table(const Ablations& ablations) {
  Table table("Pairs of runs", {{"setting", "setting", Kind::Text},
                                {"group", "study", Kind::Text},
                                {"off", "off", Kind::Text},
                                {"on", "on", Kind::Text},
                                {"measured_ratio", "measured", Kind::Number},
                                {"predicted_ratio", "predicted", Kind::Number},
                                {"ratio_error", "error", Kind::Percent},
                                {"noise", "noise", Kind::Percent},
                                {"verdict", "sign", Kind::Text},
                                {"measured_peak_ratio", "peak measured", Kind::Number},
                                {"predicted_peak_ratio", "peak predicted", Kind::Number},
                                {"peak_ratio_error", "peak error", Kind::Percent},
                                {"off_id", "run off", Kind::Text},
                                {"on_id", "run on", Kind::Text}});
  for (const AblationPair& pair : ablations.pairs) {
    table.add_row({pair.setting, pair.group, pair.off, pair.on, cell(pair.measured_time),
                   cell(pair.predicted_time), cell(pair.time_error()),
                   pair.measured_time ? Cell(pair.noise) : Cell(), std::string(verdict(pair)),
                   cell(pair.measured_peak), cell(pair.predicted_peak), cell(pair.peak_error()),
                   pair.off_id, pair.on_id});
  }
  return table;
}

std::string ablation_json(const Ablations& ablations) {
  ordered_json json;
  json["settings"] = ordered_json::array();
  for (const AblationErrors& errors : ablations.settings)
    json["settings"].push_back(errors_json(errors));
  json["overall"] = errors_json(ablations.all);
  json["overall"]["study_sign_accuracy"] = number(ablations.study_sign_accuracy);
  json["overall"]["study_median_ratio_error"] = number(ablations.study_median_error);
  json["measured"] = errors_json(ablations.measured);
  json["switched"] = errors_json(ablations.switched);
  json["topology"] = errors_json(ablations.topology);
  json["software"] = errors_json(ablations.software);
  json["pairs"] = ordered_json::array();
  for (const AblationPair& pair : ablations.pairs) json["pairs"].push_back(pair_json(pair));
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Table count_comparison_table(std::span<const calibrate::CountComparison> comparisons) {
  Table table("Training steps of the runtime, counted and predicted",
              {{"name", "figure"},
               {"predicted", "predicted", Kind::Integer},
               {"measured", "measured", Kind::Integer},
               {"equal", "equal"}});
  for (const calibrate::CountComparison& one : comparisons)
    table.add_row({one.name, one.predicted, one.measured, std::string(one.equal() ? "yes" : "NO")});
  const auto different = std::count_if(comparisons.begin(), comparisons.end(),
                                       [](const auto& one) { return !one.equal(); });
  table.add_note(
      std::to_string(comparisons.size()) + " figures, " +
      (different == 0 ? std::string("all equal") : std::to_string(different) + " differ"));
  return table;
}

std::string count_comparison_json(std::span<const calibrate::CountComparison> comparisons) {
  Json list = Json::array();
  for (const calibrate::CountComparison& one : comparisons) {
    list.push_back({{"name", one.name},
                    {"predicted", one.predicted},
                    {"measured", one.measured},
                    {"equal", one.equal()}});
  }
  return text_of({{"comparisons", std::move(list)}});
}

}  // namespace llmsim::reports
