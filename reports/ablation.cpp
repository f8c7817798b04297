#include "reports/ablation.h"

#include <cmath>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

using calibrate::AblationErrors;
using calibrate::AblationPair;
using calibrate::Ablations;
using nlohmann::ordered_json;

Cell ratio(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }

Cell signs(const AblationErrors& e) {
  return e.decided > 0 ? Cell(std::to_string(e.right) + "/" + std::to_string(e.decided)) : Cell();
}

std::vector<Cell> cells(const AblationErrors& e) {
  return {e.setting,
          count_or_none(e.pairs),
          signs(e),
          ratio(e.sign_accuracy()),
          ratio(e.median_error),
          ratio(e.worst_error),
          count_or_none(e.memory_pairs),
          ratio(e.memory_median_error)};
}

const char* verdict(const AblationPair& pair) {
  if (!pair.measured_time) return "";
  if (!pair.predicted_time) return "not predicted";
  if (!pair.decides()) return "within noise";
  return pair.right() ? "right" : "wrong";
}

ordered_json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
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
  table.add_row({std::string("all, each study and setting once"), Cell(), Cell(), ratio(ablations.study_sign_accuracy),
                 ratio(ablations.study_median_error), Cell(), Cell(), Cell()});
  for (const AblationErrors* apart : {&ablations.topology, &ablations.software}) {
    if (apart->pairs + apart->memory_pairs > 0) table.add_row(cells(*apart));
  }
  table.add_note(
      "error: |ln(predicted ratio / measured ratio)| of step times with and without the setting; memory: of peaks. Signs count "
      "where the measured ratio is outside the noise that the study states (twice), the rounding of its figures, and 2 %.");
  table.add_note("Switched: on or off, one kind or another; the others are amounts, such as the size of a micro-batch.");
  table.add_note(
      "Not part of the sums above them: topology (tensor, pipeline and data ranks on the same devices) and software (releases of "
      "one framework).");
  if (some_computed)
    table.add_note(
        "Measured times: without studies whose times lie on straight lines over the batch to a millionth. Those of machines do "
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
    table.add_row({pair.setting, pair.group, pair.off, pair.on, ratio(pair.measured_time), ratio(pair.predicted_time),
                   ratio(pair.time_error()), pair.measured_time ? Cell(pair.noise) : Cell(), std::string(verdict(pair)),
                   ratio(pair.measured_peak), ratio(pair.predicted_peak), ratio(pair.peak_error()), pair.off_id, pair.on_id});
  }
  return table;
}

std::string ablation_json(const Ablations& ablations) {
  ordered_json json;
  json["settings"] = ordered_json::array();
  for (const AblationErrors& errors : ablations.settings) json["settings"].push_back(errors_json(errors));
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

}  // namespace llmsim::reports
