// --space: every strategy of a search, as a table of its own.
#pragma once

#include <string>

#include "cli/parts.h"
#include "sim/plan.h"

namespace llmsim::cli {

// Writes a CSV row for each strategy of the query's space that breaks no rule: the fields that a
// search chooses, as people type them, whether it fits, its step time where it does, and its bytes.
// Ctrl-C ends it with an Error, and leaves an older file as it is.  Throws Error where `path`
// cannot be written.  Says on standard error how many strategies there are.
// Of a part (parts.h), those of its groups of layouts, between the marks with `question`.
void write_space(const sim::PlanQuery& query, const std::string& path, Part part,
                 const std::string& question);

}  // namespace llmsim::cli
