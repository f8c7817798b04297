#include "reports/table.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "reports/json.h"
#include "reports/sheet.h"
#include "reports/text_layout.h"
#include "sim/base/number_text.h"

namespace llmsim::reports {
std::string csv_cell(const std::string& text) {
  const bool runs = !text.empty() &&
                    std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos &&
                    !sim::number_from(text);
  const std::string shown = runs ? "'" + text : text;
  if (shown.find_first_of(",\"\r\n") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

namespace {

[[maybe_unused]] bool fits(const Cell& cell, Kind kind) {
  if (std::holds_alternative<std::monostate>(cell)) return true;
  switch (kind) {
    case Kind::Text: return std::holds_alternative<std::string>(cell);
    case Kind::Integer: return std::holds_alternative<std::int64_t>(cell);
    case Kind::Bytes: return std::holds_alternative<sim::Bytes>(cell);
    case Kind::Seconds: return std::holds_alternative<sim::Seconds>(cell);
    case Kind::Flops: return std::holds_alternative<sim::Flops>(cell);
    case Kind::BytesPerSecond: return std::holds_alternative<sim::BytesPerSecond>(cell);
    case Kind::FlopsPerSecond: return std::holds_alternative<sim::FlopsPerSecond>(cell);
    case Kind::Number:
    case Kind::Percent:
    case Kind::Factor:
    case Kind::TokensPerSecond: return std::holds_alternative<double>(cell);
  }
  return false;
}

// As it is where it fits.
std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  return width_of(text) <= width ? std::vector{text} : folded(text, width);
}

std::string joined(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   const std::vector<bool>& right, const std::string& separator) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c)
    line += (c ? separator : "") + padded(cells[c], widths[c], right[c]);
  return line;
}

std::string one_line(const std::string& text, const std::string& newline) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += newline;
    else if (c != '\r')
      out += c;
  }
  return out;
}

void escape_all(Sheet& sheet, std::string (*escaped)(const std::string&)) {
  for (std::string& header : sheet.headers) header = escaped(header);
  for (auto& row : sheet.rows) {
    for (std::string& cell : row) cell = escaped(cell);
  }
}

std::string plain_cell(const std::string& text) { return one_line(text, " "); }

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : one_line(text, "<br>")) {
    if (c == '|' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string latex_cell(const std::string& text) {
  std::string out;
  for (const char c : one_line(text, " ")) {
    switch (c) {
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        out += '\\';
        out += c;
        break;
      case '~': out += "\\textasciitilde{}"; break;
      case '^': out += "\\textasciicircum{}"; break;
      case '\\': out += "\\textbackslash{}"; break;
      case '<': out += "\\textless{}"; break;
      case '>': out += "\\textgreater{}"; break;
      default: out += c;
    }
  }
  return out;
}

std::string csv_value(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_cell(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  const std::optional<double> value = number_in(cell);
  return value ? exact(*value) : "";
}

Json json_value(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return *integer;
  return or_null(number_in(cell));
}

std::string render_text(const Table& table, const Style& style) {
  Sheet sheet = sheet_of(table);
  escape_all(sheet, plain_cell);
  const std::string on = style.colour ? "\033[1m" : "", off = style.colour ? "\033[0m" : "";
  std::string out;
  if (!table.title().empty()) {
    for (const std::string& line : lines_of(plain_cell(table.title()), style.width))
      out += on + line + off + "\n";
  }
  out += laid_out(sheet, style.width, on, off);
  for (const std::string& note : table.notes()) {
    for (const std::string& line : lines_of(plain_cell(note), style.width - 2))
      out += "  " + line + "\n";
  }
  return out;
}

std::string render_markdown(const Table& table) {
  Sheet sheet = sheet_of(table);
  escape_all(sheet, markdown_cell);
  auto widths = widths_of(sheet);
  std::vector<std::string> rule;
  for (std::size_t c = 0; c < widths.size(); ++c) {
    widths[c] = std::max<std::size_t>(widths[c], 3);
    rule.push_back(std::string(widths[c] - 1, '-') + (sheet.right_aligned[c] ? ":" : "-"));
  }
  const auto line = [&](const auto& cells) {
    return "| " + joined(cells, widths, sheet.right_aligned, " | ") + " |\n";
  };
  std::string out;
  if (!table.title().empty()) out += "### " + plain_cell(table.title()) + "\n\n";
  out += line(sheet.headers) + line(rule);
  for (const auto& row : sheet.rows) out += line(row);
  if (!table.notes().empty()) out += "\n";
  for (const std::string& note : table.notes()) out += "- " + plain_cell(note) + "\n";
  return out;
}

std::string latex_row(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) line += (c ? " & " : "") + cells[c];
  return "  " + line + " \\\\\n";
}

std::string render_latex(const Table& table) {
  Sheet sheet = sheet_of(table);
  escape_all(sheet, latex_cell);
  std::string out = "\\begin{table}\n", alignment;
  for (const bool right : sheet.right_aligned) alignment += right ? 'r' : 'l';
  if (!table.title().empty()) out += "\\caption{" + latex_cell(table.title()) + "}\n";
  out += "\\begin{tabular}{" + alignment + "}\n  \\toprule\n" + latex_row(sheet.headers) +
         "  \\midrule\n";
  for (const auto& row : sheet.rows) out += latex_row(row);
  out += "  \\bottomrule\n\\end{tabular}\n";
  for (const std::string& note : table.notes())
    out += "\\par\\footnotesize " + latex_cell(note) + "\n";
  return out + "\\end{table}\n";
}

std::string render_csv(const Table& table) {
  std::string out;
  for (std::size_t c = 0; c < table.columns().size(); ++c)
    out += (c ? "," : "") + csv_cell(table.columns()[c].key);
  out += "\n";
  for (const auto& row : table.rows()) {
    for (std::size_t c = 0; c < row.size(); ++c) out += (c ? "," : "") + csv_value(row[c]);
    out += "\n";
  }
  return out;
}

}  // namespace

sim::NameTable<Format> name_table(Format) {
  static constexpr sim::Named<Format> kFormats[] = {{Format::Table, "table"},
                                                    {Format::Markdown, "markdown"},
                                                    {Format::Csv, "csv"},
                                                    {Format::Json, "json"},
                                                    {Format::Latex, "latex"}};
  return kFormats;
}

Table::Table(std::string title, std::vector<Column> columns)
    : title_(std::move(title)), columns_(std::move(columns)), hidden_(columns_.size(), false) {}

void Table::add_row(Cells cells) {
  assert(cells.size() == columns_.size());
  for (std::size_t c = 0; c < cells.size(); ++c) assert(fits(cells[c], columns_[c].kind));
  rows_.push_back(std::move(cells));
}

void Table::add_relative(std::string key, std::string header, const std::string& of,
                         Better better) {
  const std::size_t source = index_of(of);
  std::optional<double> best;
  for (const auto& row : rows_) {
    const std::optional<double> value = number_in(row[source]);
    if (value && (!best || (better == Better::Smaller ? *value < *best : *value > *best)))
      best = value;
  }
  const auto place = static_cast<std::ptrdiff_t>(source) + 1;
  columns_.insert(columns_.begin() + place, as_factor(std::move(key), std::move(header)));
  hidden_.insert(hidden_.begin() + place, false);
  for (auto& row : rows_) {
    const std::optional<double> value = number_in(row[source]);
    const Cell cell =
        value ? Cell(better == Better::Smaller ? *value / *best : *best / *value) : Cell();
    row.insert(row.begin() + place, cell);
  }
}

void Table::fold_constants(const std::vector<std::string>& keys) {
  if (rows_.size() < 2) return;
  std::string folded;
  for (const std::string& key : keys) {
    const std::size_t c = index_of(key);
    const bool constant =
        std::ranges::all_of(rows_, [&](const auto& row) { return row[c] == rows_.front()[c]; });
    if (!constant) continue;
    hidden_[c] = true;
    const Unit unit = column_unit(*this, c);
    const bool named = !unit.name.empty() && columns_[c].kind != Kind::Factor;
    folded += (folded.empty() ? "" : ", ") + columns_[c].header + " " +
              shown(rows_.front()[c], columns_[c].kind, unit) + (named ? " " + unit.name : "");
  }
  if (!folded.empty()) add_note("the same in every row: " + folded);
}

void Table::hide(const std::string& key) { hidden_[index_of(key)] = true; }

void Table::hide_empty() {
  for (std::size_t c = 0; c < columns_.size(); ++c)
    hidden_[c] =
        hidden_[c] || std::ranges::all_of(rows_, [c](const auto& row) { return row[c] == Cell(); });
}

void Table::add_note(std::string note) { notes_.push_back(std::move(note)); }

std::size_t Table::index_of(const std::string& key) const {
  const auto found =
      std::ranges::find_if(columns_, [&](const Column& column) { return column.key == key; });
  assert(found != columns_.end());
  return static_cast<std::size_t>(found - columns_.begin());
}

Json rows_json(const Table& table) {
  return list_json(table.rows(), [&](const Cells& row) {
    Json object = Json::object();
    for (std::size_t c = 0; c < row.size(); ++c)
      object[table.columns()[c].key] = json_value(row[c]);
    return object;
  });
}

std::string render(const Table& table, Format format, const Style& style) {
  switch (format) {
    case Format::Table: return render_text(table, style);
    case Format::Markdown: return render_markdown(table);
    case Format::Csv: return render_csv(table);
    case Format::Json: return text_of(rows_json(table));
    case Format::Latex: return render_latex(table);
  }
  return "";
}

std::string render(std::span<const Table> tables, Format format, const Style& style) {
  std::string out;
  for (const Table& table : tables) out += (out.empty() ? "" : "\n") + render(table, format, style);
  return out;
}

}  // namespace llmsim::reports
