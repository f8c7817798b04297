#include "cli/commands.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "cli/help_format.h"
#include "cli/job_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/requirements.h"
#include "cli/run_changes.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "reports/explain.h"
#include "reports/prediction.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/memory/footprint.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

struct PredictOptions {
  RunOptions run;
  JobOptions job;
  bool verbose = false, sensitivity = false;
  // a published figure to explain.
  std::optional<std::string> reported_mfu{}, reported_tflops{}, convention{};
  std::optional<std::string> explain{};  // instead of the usual answer
  bool memory_timeline = false;
  std::optional<int> memory_stage{};  // none: the fullest
  std::optional<std::string> require{};
  OutputOptions output;
  std::string database;
};

void add_reported_options(CLI::App& c, PredictOptions& o) {
  add_option(c, "--reported-mfu", o.reported_mfu, "RATIO",
             "a published MFU to explain, 1.0 is 100 %; default that of the run record; example: "
             "--reported-mfu 0.8");
  add_option(c, "--reported-tflops", o.reported_tflops, "TFLOPS",
             "the same as TFLOP/s per device; example: --reported-tflops 790");
  add_option(
      c, "--convention", o.convention, "NAME",
      "how it was counted: 6N, 6N_no_embedding, palm, palm_causal, palm_no_embedding, megatron "
      "(what Megatron-LM logs since April 2025), megatron_2024 (from April 2024 on), megatron_2022 "
      "(its papers), gemm_causal or hardware; default all; example: --reported-mfu 0.8 "
      "--convention palm");
}

void add_timeline_options(CLI::App& c, PredictOptions& o) {
  CLI::Option* timeline =
      c.add_flag("--memory-timeline", o.memory_timeline,
                 "also the memory of one stage through the step, a row for each pass; tables stop "
                 "where the micro-batches repeat, CSV prints the curve alone");
  add_option(
      c, "--memory-stage", o.memory_stage, "N",
      "of which stage, from 0; default the fullest; example: --memory-timeline --memory-stage 0")
      ->needs(timeline);
}

void add_explain_option(CLI::App& c, PredictOptions& o) {
  CLI::Option* explain =
      c.add_option("--explain", o.explain,
                   "why gemm, attention or collective take as long as they do: a row for each one "
                   "of a step with the factors that make its rate and the coefficients behind "
                   "them; or what memory is used for at the peak, tensor by tensor; instead of the "
                   "usual answer; default none; example: --explain memory");
  explain->type_name("NAME");
  for (const char* other : {"--memory-timeline", "--reported-mfu", "--reported-tflops", "--tokens"})
    explain->excludes(c.get_option(other));
}

std::optional<reports::Explained> explained_of(const PredictOptions& options) {
  if (!options.explain) return std::nullopt;
  if (const auto what = sim::named<reports::Explained>(*options.explain)) return what;
  throw Error("--explain = " + *options.explain +
              ": gemm, attention, collective or memory is expected");
}

// The curve that was asked for; none of a run without figures.
std::optional<sim::MemoryCurve> curve_of(const PredictOptions& options,
                                         const sim::Prediction& prediction,
                                         reports::Format format) {
  if (!options.memory_timeline || prediction.memory.stages.empty()) return std::nullopt;
  const int stage = options.memory_stage.value_or(prediction.memory_peak.stage);
  const int last = prediction.run.strategy.pp - 1;
  if (stage < 0 || stage > last)
    throw Error("--memory-stage = " + std::to_string(stage) + ": the run has stages 0 to " +
                std::to_string(last));
  const bool people = format != reports::Format::Json && format != reports::Format::Csv;
  return sim::memory_curve(prediction.run, sim::layer_prices(prediction.run), stage, !people);
}

std::optional<double> positive(const char* option, const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const std::optional<double> value = sim::number_from(*text);
  if (!value || *value <= 0.0)
    throw Error(std::string(option) + " = " + *text + ": a positive number is expected");
  return value;
}

// The options, and where they are silent what the record says.
std::optional<reports::Reported> reported_of(const PredictOptions& options,
                                             const hwdb::Measured& measured) {
  reports::Reported reported{.mfu = positive("--reported-mfu", options.reported_mfu),
                             .convention = options.convention.value_or(""),
                             .step_time = measured.step_time};
  if (const auto tflops = positive("--reported-tflops", options.reported_tflops))
    reported.rate = *tflops * sim::TFLOPS;
  if (!reported.mfu && !reported.rate) {
    reported.mfu = measured.reported_mfu;
    if (measured.reported_tflops_per_device)
      reported.rate = *measured.reported_tflops_per_device * sim::TFLOPS;
  }
  if (reported.mfu || reported.rate) return reported;
  if (options.convention)
    throw Error("--convention = " + *options.convention +
                ": --reported-mfu or --reported-tflops is missing");
  return std::nullopt;
}

// Where the run does not fit, what makes it fit.
std::vector<reports::RunChange> changes_of(const RunOptions& run, const sim::Prediction& prediction,
                                           const hwdb::Database& database) {
  if (prediction.memory.stages.empty()) return {};  // it breaks a rule
  if (!prediction.feasible()) return fitting_changes(run, prediction, database);
  std::vector<reports::RunChange> changes = strategy_changes(run, prediction, database);
  const std::vector<reports::RunChange> hardware = hardware_changes(prediction);
  changes.insert(changes.end(), hardware.begin(), hardware.end());
  return changes;
}

int run_predict(const PredictOptions& options) {
  const reports::Format format = format_of(options.output);
  const std::optional<reports::Explained> explained = explained_of(options);
  const std::vector<Requirement> required = requirements_in(options.require.value_or(""));
  const hwdb::Database database = open_database(options.database);
  const Request request = request_of(options.run, database);
  reports::PredictionExtras extras{.reported = reported_of(options, request.measured),
                                   .one_screen = !options.verbose};
  std::optional<WaitingLine> line(predicting(request.run));
  sim::Prediction prediction = sim::predict(request.run);
  if (request.measured.step_time && prediction.step_time > sim::Seconds(0.0))
    std::ranges::move(sim::implausible_measurement(prediction, *request.measured.step_time),
                      std::back_inserter(prediction.warnings));
  extras.curve = curve_of(options, prediction, format);
  extras.job = job_of(options.job, prediction, database);
  if (extras.job)
    prediction.run.facts.insert(prediction.run.facts.end(), extras.job->facts.begin(),
                                extras.job->facts.end());
  if (extras.one_screen && prediction.feasible())
    extras.assumed_switches =
        sim::switch_worths(prediction.run, reports::assumed_strategy_fields(prediction.run));
  const bool out_of_memory = !prediction.feasible() && !prediction.memory.stages.empty();
  if (options.sensitivity || out_of_memory)
    extras.changes = changes_of(options.run, prediction, database);
  const reports::Provenance provenance{.database = name_of(database)};
  const reports::Style style = style_of(options.output);
  // a run that breaks a rule has nothing to explain.
  const bool explains = explained && !prediction.memory.stages.empty();
  line.reset();
  write_result(explains ? reports::render(*explained, prediction.run, provenance, format, style)
                        : reports::render(prediction, provenance, format, style, extras),
               options.output);
  const std::string why_not =
      prediction.feasible() ? unmet(required, prediction, extras.job)
                            : prediction.infeasible->message +
                                  (out_of_memory ? reports::nearest_fit_text(extras.changes) : "");
  if (why_not.empty()) return 0;
  say_why_not(why_not);
  return 3;
}

}  // namespace

void add_predict(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "predict", "one run in full: time, memory, communication, MFU, interval");
  const auto options = std::make_shared<PredictOptions>();
  add_run_or_file(*command, options->run);
  add_from_option(*command, options->run);
  add_reported_options(*command, *options);
  add_job_options(*command, options->job);
  command->get_option("--price")->needs(command->get_option("--tokens"));
  add_timeline_options(*command, *options);
  add_explain_option(*command, *options);
  command->add_flag("--sensitivity", options->sensitivity,
                    "also a sensitivity analysis: one switch, number or property of the hardware "
                    "changed at a time; default off, and on where memory is not enough");
  set_group(*command, "Answer",
            {"--reported-mfu", "--reported-tflops", "--convention", "--memory-timeline",
             "--memory-stage", "--explain", "--sensitivity"});
  command->add_flag("--verbose", options->verbose,
                    "also every term, stage, convention and assumption, and each value's source");
  add_require_option(*command, options->require);
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 predicted, 1 error, 2 usage, 3 the run cannot be carried out, or is not\n"
      "what --require asks for.\n"
      "Example: llmsim predict --model llama-70b --gpus 256 --tp 8 --pp 4 --recompute selective");
  command->callback([options, &status] {
    require_run(options->run);
    status = run_predict(*options);
  });
}

}  // namespace llmsim::cli
