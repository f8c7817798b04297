#include "reports/validation.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "reports/json.h"

namespace llmsim::reports {
namespace {

using calibrate::Backtest;
using calibrate::BacktestRow;
using calibrate::GroupErrors;
using calibrate::OverallErrors;

// "right/all"; none of nothing.
Cell share(int right, int all) {
  return all > 0 ? Cell(std::to_string(right) + "/" + std::to_string(all)) : Cell();
}

Cells group_cells(const GroupErrors& g) {
  return Cells({g.group, count_or_none(g.scored), count_or_none(g.missed), cell(g.median_abs_error),
                cell(g.mape), cell(g.bias), cell(g.coverage), count_or_none(g.memory_scored),
                cell(g.memory_median_abs_error), cell(g.memory_coverage),
                share(g.outcomes_right, g.outcomes)});
}

Cells overall_cells(const OverallErrors& o) {
  return Cells({std::string("all, each group once"), count_or_none(o.scored),
                count_or_none(o.missed), cell(o.macro_median_abs_error), Cell(), Cell(),
                cell(o.coverage), count_or_none(o.memory_scored),
                cell(o.memory_macro_median_abs_error), cell(o.memory_coverage),
                share(o.outcomes_right, o.outcomes)});
}

template <class Quantity>
Json ends(const std::optional<std::pair<Quantity, Quantity>>& interval) {
  if (!interval) return nullptr;
  return {value_json(interval->first), value_json(interval->second)};
}

Json row_json(const BacktestRow& row) {
  Json json;
  json["id"] = row.id;
  json["group"] = row.group;
  json["measured_s"] = or_null(row.measured_time);
  json["predicted_s"] = or_null(row.predicted_time);
  json["interval_s"] = ends(row.interval);
  json["measured_peak_bytes"] = or_null(row.measured_peak);
  json["predicted_peak_bytes"] = or_null(row.predicted_peak);
  json["peak_interval_bytes"] = ends(row.peak_interval);
  json["fit_probability"] = or_null(row.fit_probability);
  json["measured_outcome"] = or_null(row.measured_outcome);
  json["predicted_outcome"] = or_null(row.predicted_outcome);
  json["skipped"] = or_null(row.skipped);
  json["scored"] = Json::array();
  if (row.scored.step_time) json["scored"].push_back("step_time");
  if (row.scored.memory) json["scored"].push_back("memory");
  if (row.scored.outcome) json["scored"].push_back("outcome");
  json["warnings"] = row.warnings;
  return json;
}

Json group_json(const GroupErrors& g) {
  return {{"group", g.group},
          {"n", g.scored},
          {"missed", g.missed},
          {"median_abs_error", or_null(g.median_abs_error)},
          {"mean_abs_error", or_null(g.mean_abs_error)},
          {"mape", or_null(g.mape)},
          {"bias", or_null(g.bias)},
          {"coverage", or_null(g.coverage)},
          {"memory_n", g.memory_scored},
          {"memory_median_abs_error", or_null(g.memory_median_abs_error)},
          {"memory_coverage", or_null(g.memory_coverage)},
          {"outcomes", g.outcomes},
          {"outcomes_right", g.outcomes_right}};
}

Json overall_json(const OverallErrors& o) {
  return {{"groups", o.groups},
          {"n", o.scored},
          {"missed", o.missed},
          {"macro_median_abs_error", or_null(o.macro_median_abs_error)},
          {"macro_mean_abs_error", or_null(o.macro_mean_abs_error)},
          {"coverage", or_null(o.coverage)},
          {"memory_n", o.memory_scored},
          {"memory_mape", or_null(o.memory_mape)},
          {"memory_macro_median_abs_error", or_null(o.memory_macro_median_abs_error)},
          {"memory_coverage", or_null(o.memory_coverage)},
          {"outcomes", o.outcomes},
          {"outcome_accuracy", or_null(o.outcome_accuracy)},
          {"balanced_outcome_accuracy", or_null(o.balanced_outcome_accuracy)},
          {"brier_score", or_null(o.brier_score)}};
}

Json count_json(const calibrate::ReliabilityCount& count) {
  return {{"runs", count.runs},
          {"ran", count.ran},
          {"said", or_null(count.said)},
          {"share", or_null(count.share)}};
}

Json bin_json(const calibrate::ReliabilityBin& bin) {
  return {{"from", bin.from},
          {"to", bin.to},
          {"all", count_json(bin.all)},
          {"both_outcomes", count_json(bin.both)}};
}

Json reliability_json(const calibrate::Reliability& reliability) {
  return {{"bins", list_json(reliability.bins, bin_json)},
          {"brier_score", or_null(reliability.brier)},
          {"brier_score_both_outcomes", or_null(reliability.brier_both)}};
}

using calibrate::AblationErrors;
using calibrate::AblationPair;
using calibrate::Ablations;

Cells cells(const AblationErrors& e) {
  return Cells({e.setting, count_or_none(e.pairs), share(e.right, e.decided),
                cell(e.sign_accuracy()), cell(e.median_error), cell(e.worst_error),
                count_or_none(e.memory_pairs), cell(e.memory_median_error)});
}

const char* verdict(const AblationPair& pair) {
  if (!pair.measured_time) return "";
  if (!pair.predicted_time) return "not predicted";
  if (!pair.decides()) return "within noise";
  return pair.right() ? "right" : "wrong";
}

Json errors_json(const AblationErrors& e) {
  return {{"setting", e.setting},
          {"pairs", e.pairs},
          {"decided", e.decided},
          {"sign_right", e.right},
          {"sign_accuracy", or_null(e.sign_accuracy())},
          {"median_ratio_error", or_null(e.median_error)},
          {"worst_ratio_error", or_null(e.worst_error)},
          {"memory_pairs", e.memory_pairs},
          {"memory_median_ratio_error", or_null(e.memory_median_error)}};
}

Json pair_json(const AblationPair& pair) {
  return {{"setting", pair.setting},
          {"group", pair.group},
          {"off", pair.off},
          {"on", pair.on},
          {"off_id", pair.off_id},
          {"on_id", pair.on_id},
          {"measured_ratio", or_null(pair.measured_time)},
          {"predicted_ratio", or_null(pair.predicted_time)},
          {"ratio_error", or_null(pair.time_error())},
          {"noise", pair.noise},
          {"computed", pair.computed},
          {"verdict", verdict(pair)},
          {"measured_peak_ratio", or_null(pair.measured_peak)},
          {"predicted_peak_ratio", or_null(pair.predicted_peak)},
          {"peak_ratio_error", or_null(pair.peak_error())}};
}

}  // namespace

Table validation_table(const Backtest& backtest) {
  Table table(
      "Predicted against measured runs",
      {as_text("group"), as_integer("n", "runs"), as_integer("missed"),
       in_percent("median_abs_error", "median error"), in_percent("mape", "mean error"),
       in_percent("bias"), in_percent("coverage", "in interval"), as_integer("memory_n", "peaks"),
       in_percent("memory_median_abs_error", "memory error"),
       in_percent("memory_coverage", "in interval"), as_text("outcomes_right", "verdicts right")});
  for (const GroupErrors& group : backtest.groups) table.add_row(group_cells(group));
  table.add_row(overall_cells(backtest.overall));
  table.add_note(
      "median error: median of |ln(predicted / measured)| of the step time; mean error: mean of "
      "|predicted / measured - 1|; bias: mean of ln(predicted / measured).");
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

Table reliability_table(const calibrate::Reliability& reliability) {
  Table table("Runs that fitted, by the probability with which they were said to",
              {in_percent("from", "said, from"), in_percent("to"), as_integer("n", "runs"),
               in_percent("said"), in_percent("ran"), as_integer("both_n", "runs, both outcomes"),
               in_percent("both_said", "said"), in_percent("both_ran", "ran")});
  for (const calibrate::ReliabilityBin& bin : reliability.bins) {
    const auto &all = bin.all, &both = bin.both;
    table.add_row({bin.from, bin.to, std::int64_t{all.runs}, cell(all.said), cell(all.share),
                   std::int64_t{both.runs}, cell(both.said), cell(both.share)});
  }
  table.add_note(
      "both outcomes: of studies that report runs that ran and runs that were out of memory; the "
      "last line: all probabilities.");
  if (reliability.brier)
    table.add_note("Brier score " + significant(*reliability.brier, 3) +
                   (reliability.brier_both
                        ? ", both outcomes " + significant(*reliability.brier_both, 3)
                        : "") +
                   ": the mean square of the probability less what came (0 or 1).");
  return table;
}

Table skipped_table(const Backtest& backtest) {
  Table table("Runs without a prediction",
              {as_text("id", "run"), as_text("scored"), as_text("skipped", "reason")});
  for (const BacktestRow& row : backtest.rows) {
    const bool scored = row.scored.step_time || row.scored.memory || row.scored.outcome;
    if (row.skipped) table.add_row({row.id, std::string(scored ? "yes" : "no"), *row.skipped});
  }
  return table;
}

Json backtest_json(const Backtest& backtest) {
  return {{"runs", list_json(backtest.rows, row_json)},
          {"groups", list_json(backtest.groups, group_json)},
          {"overall", overall_json(backtest.overall)},
          {"reliability", reliability_json(calibrate::reliability(calibrate::verdicts(backtest)))}};
}

std::string validation_json(const Backtest& backtest) {
  return text_of(backtest_json(backtest), 1);
}

Table ablation_table(const Ablations& ablations) {
  Table table(
      "What a setting is worth: ratios of runs that differ in one setting",
      {as_text("setting"), as_integer("pairs"), as_text("sign_right", "signs right"),
       in_percent("sign_accuracy", "of them"), in_percent("median_ratio_error", "median error"),
       in_percent("worst_ratio_error", "worst"), as_integer("memory_pairs", "memory pairs"),
       in_percent("memory_median_ratio_error", "memory error")});
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
      "memory: of peaks. Signs count where the measured ratio is outside the noise that the study "
      "states (twice), the rounding of its figures, and 2 %.");
  table.add_note(
      "Switched: on or off, one kind or another; the others are amounts, such as the size of a "
      "micro-batch.");
  table.add_note(
      "Not part of the sums above them: topology (tensor, pipeline and data ranks on the same "
      "devices) and software (releases of one framework).");
  if (some_computed)
    table.add_note(
        "Measured times: without studies whose times lie on straight lines over the batch to a "
        "millionth. Those of machines do not; those of another simulator do.");
  return table;
}

Table ablation_rows_table(const Ablations& ablations) {
  Table table("Pairs of runs",
              {as_text("setting"), as_text("group", "study"), as_text("off"), as_text("on"),
               as_number("measured_ratio", "measured"), as_number("predicted_ratio", "predicted"),
               in_percent("ratio_error", "error"), in_percent("noise"), as_text("verdict", "sign"),
               as_number("measured_peak_ratio", "peak measured"),
               as_number("predicted_peak_ratio", "peak predicted"),
               in_percent("peak_ratio_error", "peak error"), as_text("off_id", "run off"),
               as_text("on_id", "run on")});
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
  Json overall = errors_json(ablations.all);
  overall["study_sign_accuracy"] = or_null(ablations.study_sign_accuracy);
  overall["study_median_ratio_error"] = or_null(ablations.study_median_error);
  return text_of({{"settings", list_json(ablations.settings, errors_json)},
                  {"overall", overall},
                  {"measured", errors_json(ablations.measured)},
                  {"switched", errors_json(ablations.switched)},
                  {"topology", errors_json(ablations.topology)},
                  {"software", errors_json(ablations.software)},
                  {"pairs", list_json(ablations.pairs, pair_json)}},
                 1);
}

Table count_comparison_table(std::span<const calibrate::CountComparison> comparisons) {
  Table table("Training steps of the runtime, counted and predicted",
              {as_text("name", "figure"), as_integer("predicted"), as_integer("measured"),
               as_text("equal")});
  for (const calibrate::CountComparison& one : comparisons)
    table.add_row({one.name, one.predicted, one.measured, std::string(one.equal() ? "yes" : "NO")});
  const auto different =
      std::ranges::count_if(comparisons, [](const auto& one) { return !one.equal(); });
  table.add_note(
      std::to_string(comparisons.size()) + " figures, " +
      (different == 0 ? std::string("all equal") : std::to_string(different) + " differ"));
  return table;
}

std::string count_comparison_json(std::span<const calibrate::CountComparison> comparisons) {
  return text_of({{"comparisons", list_json(comparisons, [](const auto& one) {
                     return Json{{"name", one.name},
                                 {"predicted", one.predicted},
                                 {"measured", one.measured},
                                 {"equal", one.equal()}};
                   })}});
}

}  // namespace llmsim::reports
