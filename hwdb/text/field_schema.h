// JSON Schemas (draft 2020-12) of what readers of JSON take: what an ObjectReader refuses does not
// validate, and null is a value that nobody states.
//
// Private to hwdb.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/field.h"

namespace llmsim::hwdb {

// Keeps the order in which keys are written.
using Schema = nlohmann::ordered_json;

inline constexpr const char* kSchemaDialect = "https://json-schema.org/draft/2020-12/schema";

// What stands under that name in "$defs" of the same document.
Schema definition(const std::string& name);

// The same, and null.  Requires a schema with one type, or with values in "enum".
Schema or_null(Schema schema);

// What each getter of an ObjectReader takes, without null.
Schema text_schema();   // any text
Schema plain_schema();  // a text without control characters
Schema flag_schema();
Schema word_schema(const std::vector<std::string>& words);
Schema texts_schema();  // a text or a list of texts
Schema integer_schema(double least, double most);
Schema number_schema(double least, std::optional<double> most = std::nullopt);

// The values of a field, read by their kind; `others`: names that are read and not written.
Schema field_schema(sim::FieldKind kind, const sim::Words& words, const sim::Words& others,
                    double least, double most);

template <class Record>
Schema field_schema(const sim::Field<Record>& field) {
  return field_schema(field.kind, field.words, field.other_words, field.least, field.most);
}

// An object with these keys and no other; those in `required` must be there.
Schema object_schema(Schema properties, const std::vector<std::string>& required = {});

}  // namespace llmsim::hwdb
