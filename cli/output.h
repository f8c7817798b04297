// Where and in which form a result is printed.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "reports/table.h"

namespace llmsim::cli {

struct OutputOptions {
  std::string format = "table";
  std::string file;  // empty: standard output
};

// --format and -o.
void add_output_options(CLI::App& command, OutputOptions& options);

// Throws Error for an unknown format, naming those there are.
reports::Format format_of(const OutputOptions& options);

// Colour only where the result goes to a terminal and NO_COLOR is not set.
reports::Style style_of(const OutputOptions& options);

// Prints a result.  A reader that closed the pipe is no error.  Throws Error where the file or standard output cannot be written.
void write_result(const std::string& text, const OutputOptions& options);

}  // namespace llmsim::cli
