// A table as people read it: text only, one unit per column, in its header.
//
// Private to reports.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/table.h"
#include "reports/units.h"

namespace llmsim::reports {

struct Sheet {
  std::vector<std::string> headers;
  std::vector<bool> right_aligned;
  std::vector<std::vector<std::string>> rows;
};

// Of the columns that are not hidden.
Sheet sheet_of(const Table& table);

// The unit in which a column is shown, that of its largest value.
Unit column_unit(const Table& table, std::size_t column);

// A cell in that unit, without its name; "-" where there is no value.
std::string shown(const Cell& cell, Kind kind, const Unit& unit);

// The number in a cell, in base units; none for text, none and values that are not finite.
std::optional<double> number_in(const Cell& cell);

// Tables as a web page: one self-contained HTML document, light or dark as the browser is, that
// asks the network for nothing; each table with its caption and its notes, as people read it.
std::string table_page(const std::string& title, std::span<const Table> tables);

}  // namespace llmsim::reports
