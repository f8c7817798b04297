// Which database a command reads.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "hwdb/database.h"

namespace llmsim::cli {

// --db PATH.
void add_database_option(CLI::App& command, std::string& path);

// The database at `path`, or at the default path where it is empty.
hwdb::Database open_database(const std::string& path);

// "path, facts of DATE (DIGEST)": for the provenance of an answer.
std::string name_of(const hwdb::Database& database);

}  // namespace llmsim::cli
