// JSON of messages, as the server reads and writes it.
//
// Private to cli.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace llmsim::cli::mcp {

// Keeps the order of keys: of two lists of a comparison the first one is the rows.
using Json = nlohmann::ordered_json;

// The document in a text.  Throws Error where it is none, and where objects and lists lie in one
// another more than 100 deep, as what prints them recurs.
Json json_in(std::string_view text);

// On one line, as a message is; bytes that are no UTF-8 are replaced.
std::string line_of(const Json& json);

}  // namespace llmsim::cli::mcp
