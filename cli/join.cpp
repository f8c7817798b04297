#include <memory>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/parts.h"

namespace llmsim::cli {
namespace {

struct JoinOptions {
  std::vector<std::string> parts;
  OutputOptions output;
};

}  // namespace

void add_join(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "join", "the whole CSV of the parts that --part of sweep, compare or plan wrote");
  const auto options = std::make_shared<JoinOptions>();
  add_option(*command, "parts", options->parts, "PART.csv",
             "the files of all parts, in any order; example: sweep.1.csv sweep.2.csv")
      ->required();
  add_option(*command, "-o,--output", options->output.file, "FILE",
             "write the result to a file; default standard output; example: -o sweep.csv");
  command->footer(
      "Exit status: 0 joined, 1 error (a part is missing, doubled, not complete or of another\n"
      "question), 2 usage.\n"
      "Example: llmsim join sweep.1.csv sweep.2.csv -o sweep.csv");
  command->callback([options, &status] {
    write_result(joined(options->parts), options->output);
    status = 0;
  });
}

}  // namespace llmsim::cli
