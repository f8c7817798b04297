// The values inside a measurement: the fields of its record, and the rows of its curve.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwdb/database.h"

namespace llmsim::hwdb {

// Named numbers, texts and truth values.  A field that is missing, null or a list reads as none.
class MeasuredRow {
 public:
  void set(const std::string& name, std::variant<double, std::string, bool> value) { values_[name] = std::move(value); }

  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;

 private:
  std::map<std::string, std::variant<double, std::string, bool>, std::less<>> values_;
};

MeasuredRow fields(const Measurement& measurement);

// One entry per point, named by the columns; or the objects of the record's own `rows`.
std::vector<MeasuredRow> rows(const Measurement& measurement);

}  // namespace llmsim::hwdb
