// Which database a command reads.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "hwdb/database.h"

namespace llmsim::cli {

// --db PATH.
void add_database_option(CLI::App& command, std::string& path);

// The database at `path`, or at the default path where it is empty; there the shipped facts stand
// in for a file that cannot be opened.
hwdb::Database open_database(const std::string& path);

// The same, and an Error where it cannot be written.
hwdb::Database open_database_to_write(const std::string& path);

// "path, facts of DATE (DIGEST)": for the provenance of an answer.
std::string name_of(const hwdb::Database& database);

}  // namespace llmsim::cli
