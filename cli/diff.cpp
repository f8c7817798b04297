#include "cli/commands.h"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/help_format.h"
#include "cli/output.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "reports/run_difference.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

struct DiffOptions {
  std::vector<std::string> runs;
  OutputOptions output;
  std::string database;
};

// Throws Error for a run that breaks a rule; one that does not fit has all its terms.
sim::Prediction prediction_of(const std::string& file, hwdb::RunResolver& resolver) {
  sim::Prediction prediction = sim::predict(resolver.resolve(hwdb::read_run(file)));
  if (prediction.memory.stages.empty()) throw Error(file + ": " + prediction.infeasible->message);
  for (const std::string& warning : prediction.run.warnings)
    std::cerr << "warning: " << file << ": " << warning << "\n";
  return prediction;
}

int run_diff(const DiffOptions& options) {
  format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  hwdb::RunResolver resolver(database);
  const bool alike = without_folder(options.runs[0]) == without_folder(options.runs[1]);
  const auto name = [&](std::size_t i) {
    return alike ? options.runs[i] : without_folder(options.runs[i]);
  };
  const reports::RunDifference difference{.first_name = name(0),
                                          .second_name = name(1),
                                          .first = prediction_of(options.runs[0], resolver),
                                          .second = prediction_of(options.runs[1], resolver)};
  return print_answer(difference, options.output);
}

}  // namespace

void add_diff(CLI::App& program, int& status) {
  CLI::App* command =
      program.add_subcommand("diff", "why one run is faster or smaller than another, term by term");
  const auto options = std::make_shared<DiffOptions>();
  add_option(*command, "runs", options->runs, "RUN.json",
             "two run files, or what predict --format json wrote; example: a.json b.json")
      ->required()
      ->expected(2);
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 compared, 1 error, 2 usage.\n"
      "Example: llmsim diff a.json b.json");
  command->callback([options, &status] { status = run_diff(*options); });
}

}  // namespace llmsim::cli
