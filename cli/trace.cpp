#include "cli/commands.h"

#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "reports/trace.h"
#include "sim/predict.h"
#include "sim/schedule/timeline.h"

namespace llmsim::cli {
namespace {

struct TraceOptions {
  RunOptions run;
  std::string microbatches = "0";
  bool operators = false;
  bool no_operators = false;
  std::string file;  // empty: standard output
  std::string database;
};

int run_trace(const TraceOptions& options) {
  sim::TimelineOptions timeline;
  timeline.microbatches =
      static_cast<int>(number_in("--microbatches", options.microbatches, {0, 1 << 24}));
  if (options.no_operators) timeline.operator_microbatches = 0;
  if (options.operators) timeline.operator_microbatches = std::numeric_limits<int>::max();
  const hwdb::Database database = open_database(options.database);
  const sim::Run asked = request_of(options.run, database).run;
  std::optional<WaitingLine> line(predicting(asked));
  const sim::Prediction prediction = sim::predict(asked);
  line.reset();
  for (const std::string& warning : prediction.run.warnings)
    std::cerr << "warning: " << warning << "\n";
  if (prediction.infeasible) say_why_not(prediction.infeasible->message);
  if (prediction.step_time <= sim::Seconds(0.0)) return 3;
  const sim::Run& run = prediction.run;
  const sim::LayerPrices prices = sim::layer_prices(run);
  write_result(
      [&](const TextSink& put) {
        reports::write_trace(run, prices, timeline, {.database = name_of(database)}, put);
      },
      {.format = "json", .file = options.file});
  return prediction.feasible() ? 0 : 3;
}

}  // namespace

void add_trace(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "trace", "one step of a run, drawn: every pass of every stage, for Perfetto");
  const auto options = std::make_shared<TraceOptions>();
  add_run_or_file(*command, options->run);
  add_option(*command, "--microbatches", options->microbatches, "N",
             "micro-batches whose passes are drawn one by one, the first of all; default 0, "
             "all; example: --microbatches 8");
  CLI::Option* all_operators = command->add_flag(
      "--operators", options->operators,
      "the operators of all these micro-batches; default those of the first; example: --operators");
  command
      ->add_flag("--no-operators", options->no_operators,
                 "no operators; default those of the first; example: --no-operators")
      ->excludes(all_operators);
  add_option(*command, "-o", options->file, "FILE",
             "file to write; default standard output; example: -o step.json");
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 drawn, 1 error, 2 usage, 3 the run cannot be carried out.\n"
      "The output is in the Chrome trace event format: open it at ui.perfetto.dev or "
      "chrome://tracing.\n"
      "Example: llmsim trace --model llama-70b --gpus 256 --tp 8 --pp 4 --microbatches 8 -o "
      "step.json");
  command->callback([options, &status] {
    require_run(options->run);
    status = run_trace(*options);
  });
}

}  // namespace llmsim::cli
