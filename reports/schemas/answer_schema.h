// JSON Schemas of what commands print with --format json: README.md has the same keys.
#pragma once

#include <string>
#include <string_view>

namespace llmsim::reports {

// Draft 2020-12, of "prediction", "plan", "comparison" or "explanation".  `run_schema`: that of run
// files (hwdb/runs/run_schema.h), of whose sections answers are made.  Requires one of these names.
std::string answer_schema(const std::string& name, const std::string& run_schema);

// Their definitions: answers.json, part of the program (hwdb/text/embed_texts.cmake).
std::string_view answer_definitions();

}  // namespace llmsim::reports
