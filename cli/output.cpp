#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

void write_standard_output(const std::string& text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written && errno != EPIPE) throw Error(std::string("standard output: ") + std::strerror(errno));
}

void write_file(const std::string& text, const std::string& path) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error("-o = " + path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace

void add_output_options(CLI::App& command, OutputOptions& options) {
  command
      .add_option("--format", options.format,
                  "table, markdown, csv, json or latex; csv and json have base units and stable keys; default table; "
                  "example: --format json")
      ->type_name("FORMAT");
  command.add_option("-o,--output", options.file, "write the result to a file; default standard output; example: -o plan.json")
      ->type_name("FILE");
}

reports::Format format_of(const OutputOptions& options) {
  if (const auto format = reports::format_named(options.format)) return *format;
  throw Error("--format = " + options.format + ": table, markdown, csv, json or latex is expected");
}

reports::Style style_of(const OutputOptions& options) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  return {.colour = wanted && options.file.empty() && isatty(STDOUT_FILENO) != 0};
}

void write_result(const std::string& text, const OutputOptions& options) {
  if (options.file.empty())
    write_standard_output(text);
  else
    write_file(text, options.file);
}

}  // namespace llmsim::cli
