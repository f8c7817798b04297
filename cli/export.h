// Files that start a run, written.
#pragma once

#include <optional>
#include <string>

#include "cli/run_options.h"
#include "hwdb/store/database.h"
#include "sim/base/quantity.h"
#include "sim/run.h"

namespace llmsim::cli {

// Writes the files with which `target` carries out the run into `folder`, which is made, or its own
// file to standard output.  Without a target it is the usual one of the run.  `options` tell the
// site.  Throws Error for what the target cannot express, and where there is none.
void export_run(const sim::Run& run, const std::optional<std::string>& target,
                const std::optional<std::string>& folder, const RunOptions& options,
                const hwdb::Database& database);

// What a refusal of a run that does not fit adds.
constexpr const char* kForceWrites = "; --force writes it all the same";

// Says on standard error by how much a run that is written does not fit; `of_what` needs memory.
void warn_of_memory(sim::Bytes needed, sim::Bytes available, const std::string& of_what);

// --force
void add_force_option(CLI::App& command, bool& force);

// --to NAME; `usual`: what holds without it.
void add_target_option(CLI::App& command, std::optional<std::string>& target, const char* usual);

}  // namespace llmsim::cli
