#include "hwdb/hardware/hardware_schema.h"

#include <utility>
#include <vector>

#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/field_schema.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

// facts/hardware_fields.json.
const Schema& hardware_fields() {
  static const Schema fields = Schema::parse(shipped_hardware_fields_json());
  return fields;
}

// "network of a device": a definition's name has no spaces.
std::string definition_name(std::string kind) {
  for (char& c : kind)
    if (c == ' ') c = '_';
  return kind;
}

Schema range_schema(const Schema& range) {
  Schema number = number_schema(range["least"], range["most"].get<double>());
  if (range.contains("or_zero")) number = {{"anyOf", {{{"const", 0}}, number}}};
  number["description"] = range["unit"];
  return number;
}

// The values of a kind, without null.
Schema kind_schema(const std::string& kind) {
  const Schema& known = hardware_fields();
  if (kind == "text") return text_schema();
  if (kind == "texts") return texts_schema();
  if (kind == "flag") return flag_schema();
  if (known["words"].contains(kind)) return word_schema(known["words"][kind]);
  if (known["counts"].contains(kind))
    return integer_schema(known["counts"][kind][0], known["counts"][kind][1]);
  if (known["objects"].contains(kind))
    return {{"anyOf", Schema::array({definition(definition_name(kind))})}};
  return range_schema(known["ranges"].at(kind));
}

// The fields of an object of the description, and those in `more`.
Schema record_schema(const std::string& name, Schema more = Schema::object(),
                     std::vector<std::string> required = {}) {
  constexpr std::string_view kNeeded = " needed";
  Schema properties = std::move(more);
  for (const auto& [key, value] : hardware_fields()["objects"].at(name).items()) {
    std::string kind = value;
    const bool needed = kind.ends_with(kNeeded);
    if (needed) {
      kind.resize(kind.size() - kNeeded.size());
      required.push_back(key);
    }
    properties[key] = needed ? kind_schema(kind) : or_null(kind_schema(kind));
  }
  return object_schema(std::move(properties), required);
}

Schema id_schema() {
  return {{"type", "string"},
          {"pattern", "^[a-z0-9_]{1,64}$"},
          {"description", "what people type and other records refer to"}};
}

Schema aliases_schema() {
  const Schema name{{"type", "string"}, {"minLength", 1}, {"maxLength", 64}};
  return {{"anyOf", {name, {{"type", "array"}, {"items", name}}, {{"type", "null"}}}}};
}

// Where the figures come from, of all fields or by the names of some.
Schema source_schema() {
  return {{"anyOf",
           {{{"type", "string"}, {"minLength", 1}},
            {{"type", "object"}, {"minProperties", 1}, {"additionalProperties", text_schema()}}}}};
}

Schema accelerator_schema() {
  Schema schema = record_schema("accelerator",
                                {{"id", id_schema()},
                                 {"source", source_schema()},
                                 {"aliases", aliases_schema()},
                                 {"like", or_null(text_schema())},
                                 {"default_system", or_null(text_schema())}},
                                {"id", "source"});
  for (const char* peak : {"peak_fp32_vector_flops", "peak_fp16_flops", "peak_bf16_flops"})
    schema["anyOf"].push_back(
        {{"required", {peak}}, {"properties", {{peak, {{"type", "number"}}}}}});
  return schema;
}

Schema system_schema() {
  const Schema ids{
      {"anyOf",
       {{{"type", "string"}}, {{"type", "array"}, {"items", text_schema()}, {"minItems", 1}}}}};
  return record_schema("system",
                       {{"id", id_schema()},
                        {"source", source_schema()},
                        {"accelerator_ids", ids},
                        {"aliases", aliases_schema()},
                        {"like", or_null(text_schema())}},
                       {"id", "source", "accelerator_ids"});
}

Schema coefficient_schema() {
  return object_schema(
      {{"scope", word_schema({"device", "system", "framework", "site"})},
       {"id", text_schema()},
       {"key", text_schema()},
       {"value", {{"type", "number"}}},
       {"standard_error", or_null(number_schema(0.0))},
       {"evidence", or_null(word_schema({"data_sheet", "measured", "fitted", "assumed", "given"}))},
       {"source", text_schema()},
       {"fitted_from", or_null(text_schema())}},
      {"scope", "id", "key", "value", "source"});
}

// One of three lists must be there.
Schema document_schema() {
  Schema lists, any = Schema::array();
  for (const auto& [list, record] : {std::pair{"accelerators", "accelerator"},
                                     {"systems", "system"},
                                     {"coefficients", "coefficient"}}) {
    lists[list] = or_null(Schema{{"type", "array"}, {"items", definition(record)}});
    any.push_back({{"required", {list}}, {"properties", {{list, {{"type", "array"}}}}}});
  }
  Schema schema = object_schema(lists);
  schema["anyOf"] = any;
  return schema;
}

}  // namespace

std::string hardware_schema() {
  Schema schema{{"$schema", kSchemaDialect},
                {"$id", "llmsim:hardware:1"},
                {"title", "One's own hardware for llmsim"},
                {"description",
                 "Input of llmsim hardware add.  Values are in SI units: bytes, bytes/s, FLOP/s, "
                 "bit/s, Hz, W; dense peaks, rates of one direction."}};
  schema.update(document_schema());
  Schema& defs = schema["$defs"];
  for (const auto& [name, fields] : hardware_fields()["objects"].items())
    defs[definition_name(name)] = record_schema(name);
  defs["accelerator"] = accelerator_schema();
  defs["system"] = system_schema();
  defs["coefficient"] = coefficient_schema();
  return schema.dump(2) + "\n";
}

}  // namespace llmsim::hwdb
