#include "hwdb/measured_rows.h"

#include <nlohmann/json.hpp>

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

void add(MeasuredRow& row, const std::string& name, const json& value) {
  if (value.is_boolean()) {
    row.set(name, value.get<bool>());
  } else if (value.is_number()) {
    row.set(name, value.get<double>());
  } else if (value.is_string()) {
    row.set(name, value.get<std::string>());
  }
}

MeasuredRow row_of(const json& object) {
  MeasuredRow row;
  for (const auto& [name, value] : object.items()) add(row, name, value);
  return row;
}

template <typename T, typename Values>
std::optional<T> value_in(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end() || !std::holds_alternative<T>(found->second)) return std::nullopt;
  return std::get<T>(found->second);
}

}  // namespace

std::optional<double> MeasuredRow::number(std::string_view name) const { return value_in<double>(values_, name); }
std::optional<std::string> MeasuredRow::text(std::string_view name) const { return value_in<std::string>(values_, name); }
std::optional<bool> MeasuredRow::flag(std::string_view name) const { return value_in<bool>(values_, name); }

MeasuredRow fields(const Measurement& measurement) { return row_of(json::parse(measurement.record)); }

std::vector<MeasuredRow> rows(const Measurement& measurement) {
  std::vector<MeasuredRow> result;
  if (measurement.columns.empty()) {
    const json record = json::parse(measurement.record);
    for (const json& object : record.value("rows", json::array())) {
      if (object.is_object()) result.push_back(row_of(object));
    }
    return result;
  }
  const json columns = json::parse(measurement.columns);
  for (const json& point : json::parse(measurement.points)) {
    MeasuredRow& row = result.emplace_back();
    for (std::size_t i = 0; i < columns.size() && i < point.size(); ++i) add(row, columns[i].get<std::string>(), point[i]);
  }
  return result;
}

}  // namespace llmsim::hwdb
