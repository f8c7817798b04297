// Where and in which form a result is printed.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/App.hpp>

#include "hwdb/store/database.h"
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

// COLUMNS of the environment.
std::optional<std::size_t> given_columns();

// Colour only where the result goes to a terminal and NO_COLOR is not set.  Lines are as wide as
// COLUMNS says, or the terminal is, else 100 columns, and at least 80.
reports::Style style_of(const OutputOptions& options);

// A text that is made piece by piece, each of which goes to `put` when it is there: for what is too
// large to be held.
using TextSink = std::function<void(std::string_view)>;
using TextSource = std::function<void(const TextSink& put)>;

// Writes a whole file or, where that fails, leaves the old one as it is: the text goes to a new
// file in the same folder, which then takes its place and its permissions.  A device or pipe is
// written as it is.  Throws Error "PATH: cannot be written: ...".
void write_file(const std::string& text, const std::string& path);
void write_file(const TextSource& text, const std::string& path);

// Throws that Error where write_file will fail, as far as that can be checked without writing: for
// what is written at the end of long work.
void check_can_be_written(const std::string& path);

// Says on standard error, in one line, why the answer is no: exit status 3.
void say_why_not(std::string message);

// Prints a result.  A reader that closed the pipe is no error.  Throws Error where the file or
// standard output cannot be written.
void write_result(const std::string& text, const OutputOptions& options);
void write_result(const TextSource& text, const OutputOptions& options);

// Prints a table or another answer that reports render.
template <class Answer>
int print_answer(const Answer& answer, const OutputOptions& options) {
  write_result(render(answer, format_of(options), style_of(options)), options);
  return 0;
}

// Which database a command reads.

// --db PATH.
void add_database_option(CLI::App& command, std::string& path);

// The database at `path`, or at the default path where it is empty; there the shipped facts stand
// in for a file that cannot be opened.
hwdb::Database open_database(const std::string& path);

// The same, and an Error where it cannot be written.
hwdb::Database open_database_to_write(const std::string& path);

// "llmsim.db, facts of DATE (DIGEST)": for the provenance of an answer, which others may read: they
// need not know where files lie on this machine.
std::string name_of(const hwdb::Database& database);

// The same with the path: for who looks after the database.
std::string place_of(const hwdb::Database& database);

// "x.db" for "/some/place/x.db".
std::string without_folder(const std::string& path);

}  // namespace llmsim::cli
