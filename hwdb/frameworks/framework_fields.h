// The fields of a framework that facts/frameworks.json, a coefficient or a rule can set, by key.
//
// Private to hwdb.  Times are in seconds, sizes in bytes, rates in bytes per
// second; none is negative.
#pragma once

#include <string>

#include "hwdb/frameworks/frameworks.h"
#include "hwdb/text/json_reader.h"

namespace llmsim::hwdb {

// Throws Error for an unknown key, naming the nearest known one, and for a value of the wrong type
// or range; `place` stands before the message.
void set_field(FrameworkChoice& choice, const std::string& key, const nlohmann::json& value,
               const std::string& place);

// A field that a run states itself: it replaces what the framework does, and the facts say so.
// Throws Error as set_field does.
void state_field(FrameworkChoice& choice, const std::string& key, const nlohmann::json& value);

}  // namespace llmsim::hwdb
