#include "reports/cross_table.h"

#include <algorithm>
#include <cassert>

#include "reports/cross_table_text.h"
#include "reports/json.h"
#include "reports/result_text.h"
#include "reports/sheet.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

constexpr double kUsdHour = 3600.0, kUsdTokens = 1e9;

// tflops and mfu as they are counted.
std::pair<double, double> rate_of(const CrossTable& table, const Prediction& p) {
  for (const sim::Convention& convention : p.conventions) {
    if (convention.name == table.convention)
      return {convention.flops_per_device.value(), convention.mfu};
  }
  return {p.flops_per_device.value(), p.mfu};
}

// Of a value that goes with the step time, or with its inverse.
Metric of_time(const CrossCell& cell, double value, bool inverse) {
  const Prediction& p = *cell.prediction;
  const auto at = [&](sim::Seconds time) {
    return value * (inverse ? p.step_time / time : time / p.step_time);
  };
  const double first = at(p.interval.first), second = at(p.interval.second);
  Metric metric{value, std::min(first, second), std::max(first, second)};
  if (cell.measured_time) metric.measured = at(*cell.measured_time);
  return metric;
}

Metric memory_of(const CrossCell& cell) {
  const Prediction& p = *cell.prediction;
  const sim::Bytes peak = cell.comparable_peak.value_or(p.memory.peak);
  const auto [low, high] = p.memory.interval(peak, p.interval_level);
  Metric metric{peak.value(), low.value(), high.value()};
  if (cell.measured_peak) metric.measured = cell.measured_peak->value();
  return metric;
}

struct MachineValue {
  CellValue value;
  const char* key;
  double size;  // of the key's unit, in base units
};

constexpr MachineValue kMachineValues[] = {{CellValue::StepTime, "step_time_s", 1.0},
                                           {CellValue::Tokens, "tokens_per_s_per_device", 1.0},
                                           {CellValue::Tflops, "tflops_per_device", 1e12},
                                           {CellValue::Mfu, "mfu", 1.0},
                                           {CellValue::Hfu, "hfu", 1.0},
                                           {CellValue::Memory, "peak_bytes", 1.0},
                                           {CellValue::Cost, "usd_per_billion_tokens", 1.0}};

std::vector<Column> machine_columns() {
  std::vector<Column> columns;
  for (const char* key : {"row", "column", "model", "device"}) columns.push_back(as_text(key));
  columns.push_back(as_integer("num_devices", "devices"));
  for (const char* key : {"strategy", "feasible", "reason"}) columns.push_back(as_text(key));
  for (const MachineValue& value : kMachineValues) {
    for (const char* which : {"", "low_", "high_", "measured_"}) {
      const std::string key = std::string(which) + value.key;
      columns.push_back(as_number(key));
    }
  }
  columns.push_back(as_text("measured_outcome", "measured"));
  return columns;
}

Cells run_cells(const CrossCell& cell) {
  if (!cell.prediction)
    return {Cell(), Cell(), Cell(), Cell(), std::string("nothing fits"), cell.why_not};
  const Prediction& p = *cell.prediction;
  return Cells({p.run.model.name, p.run.cluster.device.id, std::int64_t{p.run.cluster.num_devices},
                strategy_text(p.run.strategy),
                p.infeasible ? p.infeasible->rule : std::string("yes"),
                p.infeasible ? Cell(p.infeasible->message) : Cell()});
}

Cells machine_row(const CrossTable& table, std::size_t r, std::size_t c) {
  const CrossCell& cell = table.at(r, c);
  Cells row{table.rows[r], table.columns[c]};
  for (Cell& one : run_cells(cell)) row.push_back(std::move(one));
  for (const MachineValue& value : kMachineValues) {
    const auto metric = metric_of(table, cell, value.value);
    const std::optional<double> none;
    for (const auto& number : {metric ? metric->value : none, metric ? metric->low : none,
                               metric ? metric->high : none, metric ? metric->measured : none})
      row.push_back(number ? Cell(*number / value.size) : Cell());
  }
  const bool measured = cell.measured_time || cell.measured_peak;
  row.push_back(cell.measured_out_of_memory ? Cell(std::string("oom"))
                : measured                  ? Cell(std::string("ok"))
                                            : Cell());
  return row;
}

std::string json_text(const CrossTable& table) {
  Json json;
  json["title"] = table.title;
  json["notes"] = table.notes;
  json["convention"] = or_null(table.convention);
  json["cells"] = rows_json(cell_table(table, 0, table.cells.size()));
  json["provenance"] = {{"database", table.provenance.database}};
  return text_of(json);
}

}  // namespace

sim::NameTable<CellValue> name_table(CellValue) {
  static constexpr sim::Named<CellValue> kNames[] = {{CellValue::StepTime, "step_time"},
                                                     {CellValue::Tokens, "tokens"},
                                                     {CellValue::Tflops, "tflops"},
                                                     {CellValue::Mfu, "mfu"},
                                                     {CellValue::Hfu, "hfu"},
                                                     {CellValue::Memory, "memory"},
                                                     {CellValue::Cost, "cost"},
                                                     {CellValue::Layout, "layout"}};
  return kNames;
}

std::optional<Metric> metric_of(const CrossTable& table, const CrossCell& cell, CellValue value) {
  if (!cell.prediction || cell.prediction->step_time <= sim::Seconds(0.0)) return std::nullopt;
  const Prediction& p = *cell.prediction;
  const auto [rate, mfu] = rate_of(table, p);
  switch (value) {
    case CellValue::StepTime: return of_time(cell, p.step_time.value(), false);
    case CellValue::Tokens: return of_time(cell, p.tokens_per_second_per_device, true);
    case CellValue::Tflops: return of_time(cell, rate, true);
    case CellValue::Mfu: return of_time(cell, mfu, true);
    case CellValue::Hfu: return of_time(cell, p.hfu, true);
    case CellValue::Memory: return memory_of(cell);
    case CellValue::Cost:
      if (!cell.price) return std::nullopt;
      return of_time(cell, *cell.price / kUsdHour / p.tokens_per_second_per_device * kUsdTokens,
                     false);
    case CellValue::Layout: break;
  }
  return std::nullopt;
}

Table cell_table(const CrossTable& table, std::size_t first, std::size_t last) {
  Table rows(table.title, machine_columns());
  for (std::size_t i = first; i < last; ++i)
    rows.add_row(machine_row(table, i / table.columns.size(), i % table.columns.size()));
  return rows;
}

std::string render(const CrossTable& table, Format format, const Style& style) {
  assert(table.cells.size() == table.rows.size() * table.columns.size());
  if (format == Format::Json) return json_text(table);
  if (format == Format::Csv) return render(cell_table(table, 0, table.cells.size()), format);
  return render(tables_of(table, format == Format::Table), format, style);
}

std::string page(const CrossTable& table) {
  return table_page(table.title, tables_of(table, false));
}

}  // namespace llmsim::reports
