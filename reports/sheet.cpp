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

}  // namespace llmsim::reports
