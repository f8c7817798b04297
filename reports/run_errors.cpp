#include "reports/run_errors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmsim::reports {

namespace {

using calibrate::BacktestRow;
using calibrate::kMissedError;

bool is_wrong(const BacktestRow& row) {
  const bool is_verdict = row.measured_outcome == "ok" || row.measured_outcome == "oom";
  return row.scored.outcome && is_verdict && row.measured_outcome != row.predicted_outcome;
}

double badness(const BacktestRow& row) {
  const auto size = [](bool scored, const std::optional<double>& error) {
    return scored ? std::abs(error.value_or(kMissedError)) : 0.0;
  };
  return std::max({size(row.scored.step_time, row.time_error()),
                   size(row.scored.memory, row.peak_error()), is_wrong(row) ? kMissedError : 0.0});
}

// "yes" where the measured value lies in its interval.
Cell inside(const std::optional<bool>& holds) {
  return holds ? Cell(std::string(*holds ? "yes" : "no")) : Cell();
}

// Values that are not scored are left out.
Cells run_cells(const BacktestRow& row) {
  Cells cells{row.id, row.group};
  const auto add = [&](bool scored, const Cells& values) {
    for (const Cell& value : values) cells.push_back(scored ? value : Cell());
  };
  add(row.scored.step_time, {cell(row.measured_time), cell(row.predicted_time),
                             cell(row.time_error()), inside(row.time_inside())});
  add(row.scored.memory, {cell(row.measured_peak), cell(row.predicted_peak), cell(row.peak_error()),
                          inside(row.peak_inside())});
  add(row.scored.outcome, {cell(row.measured_outcome), cell(row.predicted_outcome)});
  return cells;
}

}  // namespace

Table run_errors_table(const calibrate::Backtest& backtest) {
  Table table(
      "Measured runs, worst first",
      {as_text("id", "run"), as_text("group"), in_seconds("measured_s", "step measured"),
       in_seconds("predicted_s", "predicted"), in_percent("time_error", "error"),
       as_text("in_interval", "in interval"), in_bytes("measured_peak_bytes", "peak measured"),
       in_bytes("predicted_peak_bytes", "predicted"), in_percent("peak_error", "error"),
       as_text("peak_in_interval", "in interval"), as_text("measured_outcome", "outcome"),
       as_text("predicted_outcome", "predicted")});
  std::vector<const BacktestRow*> rows;
  for (const BacktestRow& row : backtest.rows) {
    if (row.scored.step_time || row.scored.memory || row.scored.outcome) rows.push_back(&row);
  }
  std::ranges::stable_sort(
      rows, [](const BacktestRow* a, const BacktestRow* b) { return badness(*a) > badness(*b); });
  for (const BacktestRow* row : rows) table.add_row(run_cells(*row));
  table.hide_empty();
  table.add_note(
      "errors are ln(predicted / measured); wrong verdicts and missing predictions count as 100 %");
  return table;
}

Table residuals_table(const std::vector<calibrate::Residual>& residuals) {
  Table table("Errors by what runs have in common",
              {as_text("by"), as_text("value", "runs of"), as_number("studies"), as_number("runs"),
               in_percent("time_error", "error"), in_percent("time_bias", "bias"),
               in_percent("coverage", "in interval"), in_percent("peak_error", "memory error"),
               in_percent("peak_bias", "bias")});
  for (const calibrate::Residual& r : residuals) {
    table.add_row({r.by, r.value, static_cast<std::int64_t>(r.studies),
                   static_cast<std::int64_t>(r.runs), cell(r.error), cell(r.bias), cell(r.coverage),
                   cell(r.memory_error), cell(r.memory_bias)});
  }
  table.add_note(
      "means over studies of their medians of ln(predicted / measured); what a run waits for is "
      "the largest part of its step that is no GEMM or attention");
  return table;
}

}  // namespace llmsim::reports
