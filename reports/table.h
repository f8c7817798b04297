// A table of typed cells that every output format renders from the same values.
//
// People (table, markdown, latex) read one unit per column, chosen from the column's largest value
// when rendering, with 3-4 significant digits, numbers right-aligned.  Machines (csv, json) read
// base units in full precision under stable keys that carry the unit ("step_time_s").  A value that
// is not finite is no value: "-" for people, empty or null for machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reports/units.h"
#include "sim/base/field.h"
#include "sim/base/quantity.h"

namespace llmsim::reports {

enum class Format { Table, Markdown, Csv, Json, Latex };

sim::NameTable<Format> name_table(Format);  // "table", "markdown"

struct Column {
  std::string key;     // stable, with base unit: "step_time_s"
  std::string header;  // for people, without unit: "step time"; empty: the unit alone
  Kind kind = Kind::Text;
};

// Columns by the kind of their values; where the header is left out it is the key.
inline namespace columns {

struct ColumnOf {
  Kind kind;

  Column operator()(std::string key, std::string header) const {
    return {std::move(key), std::move(header), kind};
  }
  Column operator()(const std::string& key) const { return (*this)(key, key); }
};

inline constexpr ColumnOf as_text{Kind::Text}, as_integer{Kind::Integer}, as_number{Kind::Number},
    as_factor{Kind::Factor}, in_percent{Kind::Percent}, in_bytes{Kind::Bytes},
    in_seconds{Kind::Seconds}, in_flops{Kind::Flops}, in_flops_per_s{Kind::FlopsPerSecond},
    in_bytes_per_s{Kind::BytesPerSecond}, in_tokens_per_s{Kind::TokensPerSecond};

}  // namespace columns

// One value.  monostate is "none"; a double fills Number, Percent,
// Factor and TokensPerSecond columns.
using Cell = std::variant<std::monostate, std::string, std::int64_t, double, sim::Bytes,
                          sim::Seconds, sim::Flops, sim::BytesPerSecond, sim::FlopsPerSecond>;

using Cells = std::vector<Cell>;  // of a row

template <class Value>
Cell cell(const std::optional<Value>& value) {
  return value ? Cell(*value) : Cell();
}
inline Cell cell(const std::optional<int>& value) {
  return value ? Cell(std::int64_t{*value}) : Cell();
}

// None instead of zero, so that a table shows where there is nothing.
inline Cell count_or_none(std::int64_t value) { return value > 0 ? Cell(value) : Cell(); }

// Which end of a column is the best, for relative columns.
enum class Better { Smaller, Larger };

// How a person's terminal wants it.
struct Style {
  bool colour = false;      // bold headers by escape sequences
  std::size_t width = 100;  // columns of a line, at least 80; only Format::Table looks at both
};

class Table {
 public:
  Table(std::string title, std::vector<Column> columns);

  // One cell per column, each none or of its column's kind (asserted).
  void add_row(Cells cells);

  // A column next to `of` with each row's value relative to the best one, so that 1.00x is the best
  // and larger is worse: value / smallest, or largest / value.  Call after the rows are added.
  void add_relative(std::string key, std::string header, const std::string& of, Better better);

  // Hides those of the columns whose cells are all equal from people, and says so in one note ("the
  // same in every row: cp 1"), if there are two or more rows.  Machine formats keep the columns.
  void fold_constants(const std::vector<std::string>& keys);

  // Keeps a column for machine formats only.
  void hide(const std::string& key);

  // The same of columns without a value.  Call after the rows are added.
  void hide_empty();

  // A footnote for people.
  void add_note(std::string note);

  const std::string& title() const { return title_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Cells>& rows() const { return rows_; }
  const std::vector<std::string>& notes() const { return notes_; }
  bool hidden(std::size_t column) const { return hidden_[column]; }

 private:
  std::size_t index_of(const std::string& key) const;

  std::string title_;
  std::vector<Column> columns_;
  std::vector<bool> hidden_;
  std::vector<Cells> rows_;
  std::vector<std::string> notes_;
};

// The whole table, ending in a newline.  JSON is an array with one object per row.  LaTeX needs the
// booktabs package.
std::string render(const Table& table, Format format, const Style& style = {});

// A text as a value of CSV: in quotes where it needs them (RFC 4180), and behind a single quote
// where a spreadsheet would take it for a formula ("=cmd()"; OWASP, CSV injection).
std::string csv_cell(const std::string& text);

// Several tables one after the other, with an empty line between them.  For people's formats.
std::string render(std::span<const Table> tables, Format format, const Style& style = {});

}  // namespace llmsim::reports
