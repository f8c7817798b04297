#include "cli/predict.h"

#include <CLI/Error.hpp>
#include <memory>

#include "cli/database_option.h"
#include "cli/run_request.h"
#include "hwdb/run_resolver.h"
#include "reports/prediction.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

sim::Run described_run(const PredictOptions& options, const hwdb::Database& database) {
  if (options.run_file.empty()) return run_of(options.run, database);
  return hwdb::RunResolver(database).resolve(hwdb::read_run(options.run_file));
}

}  // namespace

void add_predict(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand("predict", "one run in full: time, memory, communication, MFU, interval");
  const auto options = std::make_shared<PredictOptions>();
  CLI::Option* file = command->add_option("RUN.json", options->run_file, "a run record, instead of options; example: run.json");
  file->type_name("FILE");
  add_run_options(*command, options->run);
  for (CLI::Option* option : command->get_options()) {
    if (option != file && option != command->get_help_ptr()) file->excludes(option);
  }
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 predicted, 1 error, 2 usage, 3 the run cannot be carried out.\n"
      "Example: llmsim predict --model llama-70b --gpus 256 --tp 8 --pp 4 --micro-batch 1 --recompute selective");
  command->callback([options, &status] {
    if (options->run_file.empty() && options->run.model.empty()) throw CLI::RequiredError("RUN.json or --model");
    status = run_predict(*options);
  });
}

int run_predict(const PredictOptions& options) {
  const reports::Format format = format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  const sim::Prediction prediction = sim::predict(described_run(options, database));
  write_result(reports::render(prediction, {.database = name_of(database)}, format, style_of(options.output)), options.output);
  return prediction.feasible() ? 0 : 3;
}

}  // namespace llmsim::cli
