#include "reports/run_errors.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llmsim::reports {
namespace {

using calibrate::BacktestRow;
using calibrate::kMissedError;

template <class Quantity>
std::optional<double> log_error(const std::optional<Quantity>& predicted,
                                const std::optional<Quantity>& measured) {
  if (!predicted || !measured) return std::nullopt;
  return std::log(*predicted / *measured);
}

bool is_wrong(const BacktestRow& row) {
  const bool is_verdict = row.measured_outcome == "ok" || row.measured_outcome == "oom";
  return row.scored.outcome && is_verdict && row.measured_outcome != row.predicted_outcome;
}

double badness(const BacktestRow& row) {
  const auto size = [](bool scored, const std::optional<double>& error) {
    return scored ? std::abs(error.value_or(kMissedError)) : 0.0;
  };
  return std::max({size(row.scored.step_time, log_error(row.predicted_time, row.measured_time)),
                   size(row.scored.memory, log_error(row.predicted_peak, row.measured_peak)),
                   is_wrong(row) ? kMissedError : 0.0});
}

// "yes" where the measured figure lies in its interval.
template <class Quantity>
Cell inside(const std::optional<std::pair<Quantity, Quantity>>& interval,
            const std::optional<Quantity>& measured) {
  if (!interval || !measured) return Cell();
  const bool holds = interval->first <= *measured && *measured <= interval->second;
  return std::string(holds ? "yes" : "no");
}

// A scored figure, measured and predicted, with its error and whether the interval holds it.
template <class Quantity>
void add_figure_cells(bool scored, const std::optional<Quantity>& measured,
                      const std::optional<Quantity>& predicted,
                      const std::optional<std::pair<Quantity, Quantity>>& interval,
                      std::vector<Cell>& cells) {
  if (!scored) {
    cells.resize(cells.size() + 4);
    return;
  }
  cells.push_back(cell(measured));
  cells.push_back(cell(predicted));
  cells.push_back(cell(log_error(predicted, measured)));
  cells.push_back(inside(interval, measured));
}

std::vector<Cell> run_cells(const BacktestRow& row) {
  std::vector<Cell> cells{row.id, row.group};
  add_figure_cells(row.scored.step_time, row.measured_time, row.predicted_time, row.interval,
                   cells);
  add_figure_cells(row.scored.memory, row.measured_peak, row.predicted_peak, row.peak_interval,
                   cells);
  cells.push_back(row.scored.outcome ? cell(row.measured_outcome) : Cell());
  cells.push_back(row.scored.outcome ? cell(row.predicted_outcome) : Cell());
  return cells;
}

void hide_empty(Table& table) {
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    const auto& rows = table.rows();
    if (std::all_of(rows.begin(), rows.end(), [c](const auto& row) { return row[c] == Cell(); }))
      table.hide(table.columns()[c].key);
  }
}

}  // namespace

Table run_errors_table(const calibrate::Backtest& backtest) {
  Table table("Measured runs, worst first", {{"id", "run", Kind::Text},
                                             {"group", "group", Kind::Text},
                                             {"measured_s", "step measured", Kind::Seconds},
                                             {"predicted_s", "predicted", Kind::Seconds},
                                             {"time_error", "error", Kind::Percent},
                                             {"in_interval", "in interval", Kind::Text},
                                             {"measured_peak_bytes", "peak measured", Kind::Bytes},
                                             {"predicted_peak_bytes", "predicted", Kind::Bytes},
                                             {"peak_error", "error", Kind::Percent},
                                             {"peak_in_interval", "in interval", Kind::Text},
                                             {"measured_outcome", "outcome", Kind::Text},
                                             {"predicted_outcome", "predicted", Kind::Text}});
  std::vector<const BacktestRow*> rows;
  for (const BacktestRow& row : backtest.rows) {
    if (row.scored.step_time || row.scored.memory || row.scored.outcome) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const BacktestRow* a, const BacktestRow* b) {
    return badness(*a) > badness(*b);
  });
  for (const BacktestRow* row : rows) table.add_row(run_cells(*row));
  hide_empty(table);
  table.add_note(
      "errors are ln(predicted / measured); wrong verdicts and missing predictions count as 100 %");
  return table;
}

}  // namespace llmsim::reports
