// What `--format csv` and `--format json` print, read back: rows of texts under stable keys.
//
// CSV as RFC 4180 has it, with a header; JSON as an array of objects, or the "runs" of a
// validation, of which an interval [low, high] of KEY is KEY.low and KEY.high and a list of words
// is one text.  None and null are empty texts.
#pragma once

#include <optional>
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

// Whether the rows are the runs of a validation.
bool is_validation(const DataRows& data);

}  // namespace llmsim::reports
