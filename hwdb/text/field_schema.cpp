#include "hwdb/text/field_schema.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace llmsim::hwdb {
namespace {

constexpr double kMostCount = std::numeric_limits<int>::max();

// Digits alone where it is an integer.
Schema bound(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  return is_whole ? Schema(static_cast<std::int64_t>(value)) : Schema(value);
}

Schema number_in(const char* type, double least, std::optional<double> most) {
  Schema schema{{"type", type}, {"minimum", bound(least)}};
  if (most && std::isfinite(*most)) schema["maximum"] = bound(*most);
  return schema;
}

Schema list_of(Schema items) { return {{"type", "array"}, {"items", std::move(items)}}; }

// Names in a list, or joined by "+" in one text.
Schema names_schema(const sim::Words& words) {
  const std::string any = "(" + sim::joined(words, "|") + ")";
  return {{"anyOf",
           {list_of(word_schema(words)),
            {{"type", "string"}, {"pattern", "^(" + any + "(\\+" + any + ")*)?$"}}}}};
}

}  // namespace

Schema definition(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

Schema or_null(Schema schema) {
  if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
  } else if (schema.contains("enum")) {
    schema["enum"].push_back(nullptr);
  } else {
    schema["type"] = {schema["type"], "null"};
  }
  return schema;
}

Schema text_schema() { return {{"type", "string"}}; }

Schema plain_schema() { return {{"type", "string"}, {"pattern", "^[^\\u0000-\\u001f\\u007f]*$"}}; }

Schema flag_schema() { return {{"type", "boolean"}}; }

Schema word_schema(const std::vector<std::string>& words) { return {{"enum", words}}; }

Schema texts_schema() { return {{"anyOf", {text_schema(), list_of(text_schema())}}}; }

Schema integer_schema(double least, double most) { return number_in("integer", least, most); }

Schema number_schema(double least, std::optional<double> most) {
  return number_in("number", least, most);
}

Schema field_schema(sim::FieldKind kind, const sim::Words& words, const sim::Words& others,
                    double least, double most) {
  sim::Words read = words;
  read.insert(read.end(), others.begin(), others.end());
  switch (kind) {
    case sim::FieldKind::Switch: return flag_schema();
    case sim::FieldKind::Count: return integer_schema(least, std::min(most, kMostCount));
    case sim::FieldKind::Number: return number_schema(least, most);
    case sim::FieldKind::Word: return read.empty() ? plain_schema() : word_schema(read);
    case sim::FieldKind::Names: return read.empty() ? texts_schema() : names_schema(read);
    case sim::FieldKind::Counts: break;
  }
  Schema counts = list_of(integer_schema(least, std::min(most, kMostCount)));
  counts["minItems"] = 1;
  return counts;
}

Schema object_schema(Schema properties, const std::vector<std::string>& required) {
  Schema schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema;
}

}  // namespace llmsim::hwdb
