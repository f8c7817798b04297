#include "hwdb/text/field_rows.h"

#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

sim::PartialRecord field_row(const nlohmann::json& object, const std::string& file) {
  const ObjectReader reader(object, file);
  sim::PartialRecord row;
  for (const auto& [key, value] : object.items()) {
    const std::optional<sim::FieldValue> plain = field_value_of(value);
    if (!plain) reader.refuse(key, "a plain value or a list of them is expected");
    row[key] = *plain;
  }
  return row;
}

}  // namespace

std::vector<sim::PartialRecord> field_rows(const std::string& text, const char* list,
                                           const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  ObjectReader reader(document, file);
  reader.texts("about");
  const nlohmann::json* const objects = reader.any(list);
  reader.finish();
  if (!objects || !objects->is_array()) reader.refuse(list, "a list of objects is expected");
  std::vector<sim::PartialRecord> rows;
  for (const nlohmann::json& object : *objects) rows.push_back(field_row(object, file));
  return rows;
}

}  // namespace llmsim::hwdb
