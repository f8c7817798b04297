// The options of a table file (hwdb/text/table_file.h) as options of a run.
#pragma once

#include <string>

#include "cli/run_options.h"
#include "hwdb/text/table_file.h"

namespace llmsim::cli {

// Which options there are: those of one run, or those of a search, which takes
// lists where it chooses.
enum class TableOptionsOf { Run, Search };

// Throws hwdb::UnknownKey for an unknown option, naming file, line and the nearest known one, and
// Error for a value that an option cannot have.
void check_options(const hwdb::TableOptions& options, TableOptionsOf kind, const std::string& file);

// The same options as on a command line.  Of an option that is there twice the later value counts.
// Requires options that have been checked.
RunOptions run_options(const hwdb::TableOptions& options, TableOptionsOf kind);

}  // namespace llmsim::cli
