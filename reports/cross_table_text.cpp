#include "reports/cross_table_text.h"

#include <algorithm>
#include <string>

#include "reports/result_text.h"
#include "reports/units.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

constexpr int kDigits = 3;

// The unit in which a value is printed.
Unit unit_of(const CrossTable& table, CellValue value) {
  double largest = 0.0;
  for (const CrossCell& cell : table.cells) {
    if (const auto metric = metric_of(table, cell, value))
      largest = std::max(largest, metric->value);
  }
  switch (value) {
    case CellValue::StepTime: return unit_for(Kind::Seconds, largest);
    case CellValue::Tokens: return {"tokens/s", 1.0};
    case CellValue::Tflops: return {"TFLOP/s", 1e12};
    case CellValue::Mfu: return {"% MFU", 0.01};
    case CellValue::Hfu: return {"% HFU", 0.01};
    case CellValue::Memory: return unit_for(Kind::Bytes, largest);
    case CellValue::Cost: return {"USD", 1.0};
    case CellValue::Layout: break;
  }
  return {};
}

std::string amount_text(double value, const Unit& unit) {
  return significant(value / unit.size, kDigits);
}

// "700 TFLOP/s (70.7 % MFU)" of texts.
std::string with_parentheses(const std::vector<std::string>& texts) {
  std::string text, rest;
  for (const std::string& one : texts) {
    if (text.empty())
      text = one;
    else
      rest += (rest.empty() ? "" : ", ") + one;
  }
  return rest.empty() ? text : text + " (" + rest + ")";
}

// The texts of cells; each value has one unit in all of them.
class CellTexts {
 public:
  explicit CellTexts(const CrossTable& table) : table_(table) {
    for (const CellValue value : table.values) units_.push_back(unit_of(table, value));
  }

  std::string predicted(const CrossCell& cell, Footnotes& footnotes) const {
    if (!cell.prediction) return nothing_fits(cell, footnotes);
    const Prediction& p = *cell.prediction;
    if (p.infeasible && p.memory.stages.empty())
      return "impossible " + footnotes.mark(p.infeasible->message);
    if (!p.memory.fits()) return out_of_memory(p.memory.needed(), p.memory.capacity);
    if (p.infeasible) return p.infeasible->rule + " " + footnotes.mark(p.infeasible->message);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < units_.size(); ++i) texts.push_back(value_text(cell, i));
    return with_parentheses(texts);
  }

  // Empty: nothing was.
  std::string measured(const CrossCell& cell) const {
    if (cell.measured_out_of_memory) return "out of memory";
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const auto metric = metric_of(table_, cell, table_.values[i]);
      if (metric && metric->measured)
        texts.push_back(amount_text(*metric->measured, units_[i]) + " " + units_[i].name);
    }
    return with_parentheses(texts);
  }

 private:
  static std::string out_of_memory(sim::Bytes needed, sim::Bytes capacity) {
    const Unit unit = unit_for(Kind::Bytes, needed.value());
    return "out of memory, " + amount_text(needed.value(), unit) + " " + unit.name + " of " +
           amount_text(capacity.value(), unit);
  }

  static std::string nothing_fits(const CrossCell& cell, Footnotes& footnotes) {
    const std::string mark = " " + footnotes.mark(cell.why_not);
    if (!cell.nearest) return "nothing fits" + mark;
    return out_of_memory(cell.nearest->first, cell.nearest->second) + mark;
  }

  std::string value_text(const CrossCell& cell, std::size_t i) const {
    if (table_.values[i] == CellValue::Layout) return strategy_text(cell.prediction->run.strategy);
    const auto metric = metric_of(table_, cell, table_.values[i]);
    if (!metric) return "no price";
    const Unit& unit = units_[i];
    const std::string range = table_.interval ? " [" + amount_text(metric->low, unit) + ", " +
                                                    amount_text(metric->high, unit) + "]"
                                              : "";
    return amount_text(metric->value, unit) + range + " " + unit.name;
  }

  const CrossTable& table_;
  std::vector<Unit> units_;
};

bool shows(const CrossTable& table, CellValue value) {
  return std::ranges::find(table.values, value) != table.values.end();
}

// What the cells leave open.
std::vector<std::string> meanings(const CrossTable& table) {
  std::vector<std::string> lines;
  if (shows(table, CellValue::Tokens) || shows(table, CellValue::Tflops))
    lines.push_back("rates are per device");
  if (table.convention && (shows(table, CellValue::Tflops) || shows(table, CellValue::Mfu)))
    lines.push_back("FLOPs are counted by the convention " + *table.convention);
  if (shows(table, CellValue::Cost)) lines.push_back("USD are for 10^9 tokens");
  if (table.interval) lines.push_back("[low, high] hold the measured value in 9 of 10 runs");
  return lines;
}

void add_measured(const CrossTable& table, const CellTexts& texts, std::size_t r, Table& sheet) {
  Cells row{std::string("  measured")};
  bool any = false;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string text = texts.measured(table.at(r, c));
    row.push_back(text.empty() ? Cell() : Cell(text));
    any = any || !text.empty();
  }
  if (any) sheet.add_row(std::move(row));
}

Table cells_of(const CrossTable& table, bool wraps) {
  std::vector<Column> columns{as_text("row", table.corner)};
  for (const std::string& column : table.columns) columns.push_back(as_text(column));
  Table sheet(table.title, columns);
  Footnotes footnotes;
  const CellTexts texts(table);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    Cells row{table.rows[r]};
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      row.emplace_back(texts.predicted(table.at(r, c), footnotes));
    sheet.add_row(std::move(row));
    add_measured(table, texts, r, sheet);
  }
  // Lines of a terminal end somewhere; those of a document do not.
  for (const auto& notes : {footnotes.lines(), meanings(table), table.notes}) {
    for (const std::string& note : notes)
      wraps ? add_wrapped_note(sheet, note) : sheet.add_note(note);
  }
  return sheet;
}

Table layouts_of(const CrossTable& table) {
  Table layouts("Layouts, the best of each cell",
                {as_text("row", table.corner), as_text("column", ""), as_text("layout")});
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const CrossCell& cell = table.at(r, c);
      if (cell.prediction)
        layouts.add_row(
            {table.rows[r], table.columns[c], strategy_text(cell.prediction->run.strategy)});
    }
  }
  return layouts;
}

}  // namespace

std::vector<Table> tables_of(const CrossTable& table, bool wraps) {
  std::vector<Table> tables{cells_of(table, wraps)};
  if (table.planned && !shows(table, CellValue::Layout)) {
    Table layouts = layouts_of(table);
    if (!layouts.rows().empty()) tables.push_back(std::move(layouts));
  }
  if (!table.provenance.database.empty())
    tables.back().add_note("database: " + table.provenance.database);
  return tables;
}

}  // namespace llmsim::reports
