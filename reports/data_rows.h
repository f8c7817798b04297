// What `--format csv` and `--format json` print, read back: rows of texts under stable keys.
//
// CSV as RFC 4180 has it, with a header; JSON as an array of objects, or the "runs" of a
// validation, of which an interval [low, high] of KEY is KEY.low and KEY.high and a list of words
// is one text.  None and null are empty texts.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace llmsim::reports {

struct DataRows {
  std::vector<std::string> keys;
  std::vector<std::vector<std::string>> rows;  // a text for each key

  bool has(std::string_view key) const;
  // Requires has(key).
  std::size_t column(std::string_view key) const;
  const std::string& text(std::size_t row, std::string_view key) const;
  // None where the text is no finite number.
  std::optional<double> number(std::size_t row, std::string_view key) const;
};

// Throws Error that says what is wrong, without the name of the file.
DataRows data_rows(const std::string& text);

// The fields of the CSV line that begins at `at`, which moves behind its end.  Throws Error for a
// quoted field without an end.
std::vector<std::string> csv_fields(const std::string& text, std::size_t& at);

// Whether the rows are the runs of a validation.
bool is_validation(const DataRows& data);

// Which settings distinguish the rows of a sweep.
//
// Settings are the columns before "feasible".  Those that vary are taken in their order, each where
// rows that were alike so far differ in it: what follows from others, as dp does from tp, is none.

inline constexpr const char* kFirstFigure = "feasible";  // what stands before it are settings

using Rows = std::vector<std::size_t>;  // of the data, by index

std::set<std::string> texts_of(const DataRows& data, const Rows& rows, const std::string& key);

// The texts of some columns of a row: two rows with the same are alike.
std::vector<std::string> texts_of(const DataRows& data, std::size_t row,
                                  const std::vector<std::string>& keys);

std::vector<std::string> settings_that_vary(const DataRows& data, const Rows& rows);

// Settings that distinguish rows which are alike in `known`.
std::vector<std::string> settings_between(const DataRows& data, const Rows& rows,
                                          const std::vector<std::string>& known);

// "tp 8, micro_batch 2".
std::string described(const DataRows& data, std::size_t row, const std::vector<std::string>& keys);

// Throws Error where two rows are alike in `keys`, which names a setting in which they differ.
void require_one_row(const DataRows& data, const Rows& rows, const std::vector<std::string>& keys);

}  // namespace llmsim::reports
