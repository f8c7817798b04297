#include "cli/cross_table_cells.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include <CLI/CLI.hpp>

#include "calibrate/backtest.h"
#include "cli/plan_answer.h"
#include "cli/run_library.h"
#include "cli/run_request.h"
#include "cli/sweep_grid.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {

namespace {

using reports::CellValue;
using reports::CrossCell;
using reports::CrossTable;

constexpr std::size_t kMostCells = 10000;

// --- predicted, planned and measured ---

CrossCell recorded_cell(const hwdb::RunRecord& record, const CellContext& context) {
  const hwdb::Measured measured = record.measured.value_or(hwdb::Measured{});
  hwdb::RunResolver resolver(context.database);
  CrossCell cell{.prediction = sim::predict(resolver.resolve(record)),
                 .measured_time = measured.step_time,
                 .measured_peak = measured.peak_memory,
                 .measured_out_of_memory = measured.outcome == "oom"};
  if (measured.peak_memory && !cell.prediction->memory.stages.empty())
    cell.comparable_peak = calibrate::comparable_peak(cell.prediction->memory, measured);
  return cell;
}

CrossCell unplanned_cell(const sim::Plan& plan) {
  CrossCell cell{.why_not = reports::why_nothing_fits(plan)};
  for (const sim::NearestMiss& miss : plan.nearest) {
    if (miss.rule == "out of memory") cell.nearest = std::pair(miss.needed, miss.available);
  }
  return cell;
}

CrossCell planned_cell(const RunOptions& run, const CellContext& context) {
  PlanOptions options;
  options.jobs = context.jobs;
  reports::PlanAnswer answer = planned(options, run, context.database);
  if (!answer.plan.complete) throw Error("interrupted");
  if (answer.plan.plans.empty()) return unplanned_cell(answer.plan);
  return {.prediction = std::move(answer.plan.plans.front())};
}

void add_price(CrossCell& cell, const CellContext& context) {
  if (cell.prediction)
    cell.price = device_hour_price(context.job, cell.prediction->run.cluster, context.database);
}

CrossCell answered(const RunOptions& run, bool planned, const CellContext& context) {
  CrossCell cell = planned ? planned_cell(run, context)
                           : CrossCell{.prediction = sim::predict(run_of(run, context.database))};
  add_price(cell, context);
  return cell;
}

// Those of the part, row by row; the others stay empty.
void answer_cells(CrossTable& table, const CellContext& context, const auto& answer) {
  table.cells.resize(table.rows.size() * table.columns.size());
  const PartRange range = range_of(context.part, table.cells.size());
  for (std::size_t i = range.first; i < range.last; ++i) table.cells[i] = answer(i);
}

// --- from a file ---

std::vector<std::string> labels_of(const std::vector<hwdb::TableLine>& lines) {
  std::vector<std::string> labels;
  for (const hwdb::TableLine& line : lines) labels.push_back(line.label);
  return labels;
}

void check_all_options(const hwdb::TableFile& file, TableOptionsOf kind) {
  check_options(file.common, kind, file.file);
  for (const hwdb::TableLine& row : file.rows) check_options(row.options, kind, file.file);
  for (const hwdb::TableLine& column : file.columns) check_options(column.options, kind, file.file);
  for (const hwdb::TableCell& cell : file.cells) check_options(cell.options, kind, file.file);
}

const hwdb::TableCell* cell_of(const hwdb::TableFile& file, std::size_t row, std::size_t column) {
  for (const hwdb::TableCell& cell : file.cells) {
    if (cell.row == row && cell.column == column) return &cell;
  }
  return nullptr;
}

// Options of all cells, of the column, of the row, of the cell: the later ones count.
RunOptions options_of(const hwdb::TableFile& file, std::size_t row, std::size_t column,
                      TableOptionsOf kind) {
  hwdb::TableOptions options = file.common;
  const auto add = [&](const hwdb::TableOptions& more) {
    options.insert(options.end(), more.begin(), more.end());
  };
  add(file.columns[column].options);
  add(file.rows[row].options);
  if (const hwdb::TableCell* const own = cell_of(file, row, column)) add(own->options);
  return run_options(options, kind);
}

CrossCell cell_in(const hwdb::TableFile& file, std::size_t row, std::size_t column,
                  RunLibrary& library, const CellContext& context) {
  const hwdb::TableCell* const own = cell_of(file, row, column);
  try {
    if (own && own->run) {
      CrossCell cell = recorded_cell(library.run(*own->run), context);
      add_price(cell, context);
      return cell;
    }
    const auto kind = file.plan ? TableOptionsOf::Search : TableOptionsOf::Run;
    const RunOptions run = options_of(file, row, column, kind);
    if (run.model.empty()) throw Error("model is missing");
    return answered(run, file.plan, context);
  } catch (const Error& error) {
    throw Error(file.file + ": row \"" + file.rows[row].label + "\", column \"" +
                file.columns[column].label + "\": " + error.what());
  }
}

// --- from lists ---

// "8" alone says nothing.
std::vector<std::string> labels_of(const SweepAxis& axis) {
  std::vector<std::string> labels;
  for (const std::string& value : axis.values) {
    const bool is_name = std::isalpha(static_cast<unsigned char>(value.front())) != 0 &&
                         value != "true" && value != "false";
    labels.push_back(is_name ? value : reports::with_spaces(axis.key) + " " + value);
  }
  return labels;
}

std::string option_of_axis(const std::string& key) {
  if (const sim::StrategyField* const field = sim::find_strategy_field(key))
    return option_name(*field);
  return option_named(key);
}

// Lists in the order in which they were typed.
void order_axes(std::vector<SweepAxis>& axes, const std::vector<std::string>& order) {
  const auto place = [&](const SweepAxis& axis) {
    return std::ranges::find(order, option_of_axis(axis.key)) - order.begin();
  };
  std::ranges::stable_sort(
      axes, [&](const SweepAxis& a, const SweepAxis& b) { return place(a) < place(b); });
}

// "llama3-8b, gpus 64: hardware by precision", of what is listed and what is the same for all.
std::string title_of(const SweepGrid& grid) {
  std::string same, lists;
  for (const SweepAxis& axis : grid.axes)
    lists += (lists.empty() ? "" : " by ") + reports::with_spaces(axis.key);
  RunOptions base = grid.base;
  for (const ListedOption& option : listed_options()) {
    const std::string key = option.key;
    const bool is_axis =
        std::ranges::any_of(grid.axes, [&](const SweepAxis& axis) { return axis.key == key; });
    const std::string* const text = option.text(base);
    if (is_axis || !text || text->empty()) continue;
    same += (same.empty() ? "" : ", ") + (option.numbers ? reports::with_spaces(key) + " " : "") +
            *text;
  }
  return lists.empty() ? same : same.empty() ? lists : same + ": " + lists;
}

// A command with the options of a run and nothing else.
struct OptionReader {
  explicit OptionReader(TableOptionsOf kind) {
    command.set_help_flag();
    if (kind == TableOptionsOf::Search)
      add_search_options(command, run);
    else
      add_run_options(command, run);
  }

  const CLI::Option* option(const std::string& key) const {
    return command.get_option_no_throw("--" + key);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const CLI::Option* known : command.get_options())
      names.insert(names.end(), known->get_lnames().begin(), known->get_lnames().end());
    return names;
  }

  CLI::App command;
  RunOptions run;
};

std::string place(const std::string& file, const hwdb::TableOption& option) {
  return file + ": line " + std::to_string(option.line) + ": ";
}

[[noreturn]] void refuse_key(const std::string& file, const hwdb::TableOption& option,
                             const OptionReader& reader) {
  throw hwdb::UnknownKey(place(file, option) + "unknown option " + option.key.substr(0, 60) +
                         hwdb::did_you_mean(option.key, reader.names()));
}

}  // namespace

CrossTable cross_table(const hwdb::TableFile& file, const CellContext& context) {
  check_all_options(file, file.plan ? TableOptionsOf::Search : TableOptionsOf::Run);
  CrossTable table{.title = file.title,
                   .corner = {},
                   .notes = file.notes,
                   .rows = labels_of(file.rows),
                   .columns = labels_of(file.columns),
                   .values = cell_values(file.values, file.file + ": cell"),
                   .convention = file.convention,
                   .interval = file.interval,
                   .planned = file.plan,
                   .cells = {}};
  std::vector<std::string> runs = file.runs;
  runs.insert(runs.end(), context.runs.begin(), context.runs.end());
  RunLibrary library(runs);
  const std::size_t columns = table.columns.size();
  answer_cells(table, context, [&](std::size_t i) {
    return cell_in(file, i / columns, i % columns, library, context);
  });
  return table;
}

CrossTable cross_table(const RunOptions& options, const std::vector<std::string>& order,
                       bool planned, const CellContext& context) {
  SweepGrid grid = grid_of(options);
  order_axes(grid.axes, order);
  if (grid.axes.size() > 2)
    throw Error(option_of_axis(grid.axes[2].key) +
                ": a third list; a table has two, of its rows and its columns, llmsim sweep takes "
                "more");
  if (grid.size() > kMostCells)
    throw Error("the lists have " + std::to_string(grid.size()) + " cells; at most " +
                std::to_string(kMostCells) + " are expected");
  CrossTable table{.title = title_of(grid),
                   .corner = grid.axes.empty() ? "" : reports::with_spaces(grid.axes[0].key),
                   .notes = {},
                   .rows = grid.axes.empty() ? std::vector{options.model} : labels_of(grid.axes[0]),
                   .columns = grid.axes.size() < 2
                                  ? std::vector<std::string>{planned ? "best plan" : "prediction"}
                                  : labels_of(grid.axes[1]),
                   .values = {},
                   .planned = planned,
                   .cells = {}};
  answer_cells(table, context,
               [&](std::size_t i) { return answered(grid.run(i), planned, context); });
  return table;
}

std::vector<CellValue> cell_values(const std::vector<std::string>& names,
                                   const std::string& option) {
  std::vector<CellValue> values;
  for (const std::string& name : names) {
    const auto value = sim::named<CellValue>(name);
    if (!value)
      throw Error(option + " = " + name + ": " + sim::alternatives(sim::all_names<CellValue>()) +
                  " is expected");
    values.push_back(*value);
  }
  return values;
}

bool leaves_layout_open(const RunOptions& options) {
  const std::vector<std::string> layout{"tp",  "pp",       "dp",         "cp",          "ep",
                                        "etp", "sharding", "shard_size", "stage_layers"};
  return std::ranges::none_of(
      layout, [&](const std::string& key) { return options.strategy.contains(key); });
}

void check_options(const hwdb::TableOptions& options, TableOptionsOf kind,
                   const std::string& file) {
  const OptionReader known(kind);
  for (const hwdb::TableOption& option : options) {
    if (option.key.empty() || !known.option(option.key)) refuse_key(file, option, known);
    if (option.value.empty())
      throw Error(place(file, option) + option.key + ": a value is expected");
    try {
      run_options({option}, kind);
    } catch (const CLI::RequiresError&) {  // another one stands with it
    } catch (const std::exception& error) {
      throw Error(place(file, option) + error.what());
    }
  }
}

RunOptions run_options(const hwdb::TableOptions& options, TableOptionsOf kind) {
  OptionReader reader(kind);
  std::map<const CLI::Option*, std::string> values;  // by option: names can be aliases
  for (const hwdb::TableOption& option : options)
    values[reader.option(option.key)] = "--" + option.key + "=" + option.value;
  std::vector<std::string> arguments;
  for (const auto& [option, argument] : values) arguments.push_back(argument);
  reader.command.parse(arguments);
  return reader.run;
}

}  // namespace llmsim::cli
