#include "reports/sheet.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace llmsim::reports {

namespace {

std::string header_of(const Column& column, const Unit& unit) {
  const bool named = !unit.name.empty() && column.kind != Kind::Factor;
  if (!named) return column.header;
  return column.header.empty() ? unit.name : column.header + " (" + unit.name + ")";
}

constexpr const char* kStyle =
    ":root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }\n"
    "body { margin: 2rem; }\n"
    "table { border-collapse: collapse; margin-top: 1.5rem; }\n"
    "caption { text-align: left; font-weight: 600; padding-bottom: .5rem; }\n"
    "th, td { padding: .3rem .8rem; text-align: left; border-bottom: 1px solid #8886; }\n"
    ".right { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "p { margin: .2rem .8rem; font-size: .85rem; opacity: .8; }\n";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\n': out += "<br>"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_row(const Sheet& sheet, const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string attributes = sheet.right_aligned[c] ? " class=\"right\"" : "";
    row += "<" + std::string(tag) + attributes + ">" + escaped(cells[c]) + "</" + tag + ">";
  }
  return row + "</tr>\n";
}

std::string html_table(const Table& table) {
  const Sheet sheet = sheet_of(table);
  std::string out = "<table>\n";
  if (!table.title().empty()) out += "<caption>" + escaped(table.title()) + "</caption>\n";
  out += "<thead>\n" + html_row(sheet, sheet.headers, "th") + "</thead>\n<tbody>\n";
  for (const auto& row : sheet.rows) out += html_row(sheet, row, "td");
  out += "</tbody>\n</table>\n";
  for (const std::string& note : table.notes()) out += "<p>" + escaped(note) + "</p>\n";
  return out;
}

}  // namespace

std::optional<double> number_in(const Cell& cell) {
  const auto value = std::visit(
      [](const auto& v) -> std::optional<double> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, std::string>) {
          return std::nullopt;
        } else if constexpr (std::is_arithmetic_v<T>) {
          return static_cast<double>(v);
        } else {
          return v.value();
        }
      },
      cell);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Unit column_unit(const Table& table, std::size_t column) {
  double largest = 0.0;
  for (const auto& row : table.rows())
    largest = std::max(largest, std::abs(number_in(row[column]).value_or(0.0)));
  return unit_for(table.columns()[column].kind, largest == 0.0 ? 1.0 : largest);
}

std::string shown(const Cell& cell, Kind kind, const Unit& unit) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return std::to_string(*integer);
  const std::optional<double> value = number_in(cell);
  if (!value) return "-";
  if (kind == Kind::Factor) return significant(*value, 3) + "x";
  return significant(*value / unit.size, kind == Kind::Percent ? 3 : 4);
}

Sheet sheet_of(const Table& table) {
  Sheet sheet;
  sheet.rows.resize(table.rows().size());
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    if (table.hidden(c)) continue;
    const Column& column = table.columns()[c];
    const Unit unit = column_unit(table, c);
    sheet.headers.push_back(header_of(column, unit));
    sheet.right_aligned.push_back(column.kind != Kind::Text);
    for (std::size_t r = 0; r < table.rows().size(); ++r)
      sheet.rows[r].push_back(shown(table.rows()[r][c], column.kind, unit));
  }
  return sheet;
}

std::string table_page(const std::string& title, std::span<const Table> tables) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" +
      escaped(title) + "</title>\n<style>\n" + kStyle + "</style>\n</head>\n<body>\n";
  for (const Table& table : tables) out += html_table(table);
  return out + "</body>\n</html>\n";
}

}  // namespace llmsim::reports
