// Files that start a run, written.
#pragma once

#include <optional>
#include <string>

#include "cli/run_options.h"
#include "hwdb/database.h"
#include "sim/run.h"

namespace llmsim::cli {

// Writes the files with which a training program carries out the run into `folder`, which is made,
// or to standard output.  `target`: none is that of the run's framework.  `options` tell the site.
// Throws Error for what the target cannot express, and where the framework has no target.
void export_run(const sim::Run& run, const std::optional<std::string>& target,
                const std::optional<std::string>& folder, const RunOptions& options,
                const hwdb::Database& database);

// --to NAME.
void add_target_option(CLI::App& command, std::optional<std::string>& target);

}  // namespace llmsim::cli
