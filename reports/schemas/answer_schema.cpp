#include "reports/schemas/answer_schema.h"

#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

using Schema = nlohmann::ordered_json;

constexpr std::string_view kReference = "#/$defs/";

// Copies what `schema` refers to from `known`, and what that refers to.
void add_referenced(const Schema& schema, const Schema& known, Schema& defs) {
  if (!schema.is_structured()) return;
  for (const auto& [key, value] : schema.items()) {
    if (key != "$ref" || !value.is_string()) {
      add_referenced(value, known, defs);
      continue;
    }
    const std::string name = value.get<std::string>().substr(kReference.size());
    if (defs.contains(name)) continue;
    defs[name] = known.at(name);
    add_referenced(known.at(name), known, defs);
  }
}

}  // namespace

std::string answer_schema(const std::string& name, const std::string& run_schema) {
  Schema known = Schema::parse(run_schema)["$defs"];
  known.update(Schema::parse(answer_definitions()));
  Schema schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                {"$id", "llmsim:" + name + ":1"}};
  schema.update(known.at(name));
  Schema defs = Schema::object();
  add_referenced(schema, known, defs);
  schema["$defs"] = defs;
  return schema.dump(2) + "\n";
}

}  // namespace llmsim::reports
