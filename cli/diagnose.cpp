#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calibrate/log_summary.h"
#include "calibrate/profile/profiled_step.h"
#include "calibrate/profile/site_observations.h"
#include "calibrate/profile/step_difference.h"
#include "calibrate/site_fit.h"
#include "calibrate/training_log.h"
#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "hwdb/profile/profile_trace.h"
#include "hwdb/runs/layout_errors.h"
#include "hwdb/runs/site.h"
#include "reports/page/page.h"
#include "reports/step_difference.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

constexpr int kMostTraces = 1024;

struct DiagnoseOptions {
  RunOptions run;
  std::vector<std::string> profiles, logs;
  std::optional<std::string> site;  // that keeps what was learnt
  bool replace = false;
  OutputOptions output;
  std::string database;
};

std::vector<calibrate::ProfiledStep> steps_of(const std::vector<std::string>& paths) {
  std::vector<hwdb::ProfileTrace> traces;
  for (const std::string& path : paths) {
    const WaitingLine line("reading " + without_folder(path));
    for (hwdb::ProfileTrace& trace : hwdb::read_profile(path)) traces.push_back(std::move(trace));
  }
  return calibrate::profiled_steps(traces);
}

reports::LoggedStepTime logged_step(const std::vector<std::string>& logs, const sim::Run& run) {
  const calibrate::LogSummary summary =
      calibrate::summary(calibrate::read_training_logs(logs), calibrate::step_size(run));
  for (const std::string& warning : summary.warnings) std::cerr << "warning: " << warning << "\n";
  if (!summary.has_time()) throw Error(logs.front() + ": has no step; the run was out of memory");
  return {.step = sim::Seconds(summary.phase.median),
          .spread = summary.phase.spread,
          .lines = summary.phase.steps.size(),
          .format = summary.format};
}

reports::Diagnosis diagnosis_of(const DiagnoseOptions& options, sim::Prediction prediction) {
  reports::Diagnosis diagnosis{.prediction = std::move(prediction)};
  const sim::Prediction& predicted = diagnosis.prediction;
  if (!options.profiles.empty())
    diagnosis.difference = calibrate::step_difference(steps_of(options.profiles), predicted);
  if (!options.logs.empty()) diagnosis.logged = logged_step(options.logs, predicted.run);
  if (!diagnosis.difference)
    diagnosis.factors = calibrate::part_factors(calibrate::predicted_step(predicted, false),
                                                diagnosis.logged->step);
  return diagnosis;
}

// What a reader has to know before he believes the lines.
void warn(const reports::Diagnosis& diagnosis) {
  const sim::Seconds measured =
      diagnosis.difference ? diagnosis.difference->step : diagnosis.logged->step;
  std::vector<std::string> warnings = diagnosis.prediction.run.warnings;
  for (std::string& line : sim::implausible_measurement(diagnosis.prediction, measured))
    warnings.push_back(std::move(line));
  const int devices = diagnosis.prediction.run.cluster.num_devices;
  if (diagnosis.difference &&
      diagnosis.difference->profiled.world_size.value_or(devices) != devices)
    warnings.push_back("the profile is of " +
                       std::to_string(*diagnosis.difference->profiled.world_size) +
                       " ranks, the run has " + std::to_string(devices) + " devices");
  for (const std::string& warning : warnings) std::cerr << "warning: " << warning << "\n";
}

// "step +4.1 % +- 5.0 %, memory rate -9.8 % +- 6.1 %"
std::string effects_text(const hwdb::Site& site) {
  std::string text;
  for (const auto& [key, words, value] : hwdb::kSiteEffects)
    text += fmt::format("{}{} {:+.1f} % +- {:.1f} %", text.empty() ? "" : ", ", words,
                        100.0 * site.effects.*value, 100.0 * site.deviations.*value);
  return text;
}

// Stores what the run says of its cluster.
void keep_site(const DiagnoseOptions& options, const reports::Diagnosis& diagnosis,
               const sim::Run& asked, hwdb::Database& database) {
  calibrate::SiteRun run{.id = asked.model.name, .run = asked, .parts = {}};
  run.measured =
      (diagnosis.difference ? diagnosis.difference->step : diagnosis.logged->step).value();
  if (diagnosis.difference)
    run.parts = calibrate::site_observations(diagnosis.difference->profiled, asked);
  run.run.facts.clear();
  const calibrate::SiteFit fit =
      calibrate::fit_site(*options.site, {run}, hwdb::layout_errors(database), database.version());
  hwdb::put_site(database, fit.site, options.replace);
  std::cerr << "site " << *options.site << ": " << effects_text(fit.site) << "; stored in "
            << place_of(database) << "; go on with: llmsim predict --site " << *options.site
            << "\n";
}

int run_diagnose(const DiagnoseOptions& options) {
  if (options.profiles.empty() && options.logs.empty())
    throw CLI::RequiredError("--profile TRACE or --log FILE");
  const bool page = options.output.format == "html";
  if (!page) format_of(options.output);  // refuses an unknown one before traces are read
  if (const auto missing = page ? reports::missing_pages() : std::nullopt) throw Error(*missing);
  hwdb::Database database =
      options.site ? open_database_to_write(options.database) : open_database(options.database);
  if (options.site) {
    if (!options.run.site.empty())
      throw Error("--store-site: goes with no --site, as it holds the run against all clusters");
    hwdb::check_site_name(database, *options.site, options.replace);
  }
  const sim::Run asked = request_of(options.run, database).run;
  sim::Prediction prediction = sim::predict_without_terms(asked);
  if (prediction.step_time <= sim::Seconds(0.0)) {
    say_why_not(prediction.infeasible ? prediction.infeasible->message : "no step is predicted");
    return 3;
  }
  const reports::Diagnosis diagnosis = diagnosis_of(options, std::move(prediction));
  warn(diagnosis);
  const reports::Provenance provenance{.database = name_of(database)};
  write_result(page ? reports::page(diagnosis, provenance)
                    : reports::render(diagnosis, provenance, format_of(options.output),
                                      style_of(options.output)),
               options.output);
  if (options.site) keep_site(options, diagnosis, asked, database);
  return 0;
}

}  // namespace

void add_diagnose(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "diagnose", "where the time of a measured step went, part by part beside its prediction");
  const auto options = std::make_shared<DiagnoseOptions>();
  add_run_or_file(*command, options->run);
  add_option(*command, "--profile", options->profiles, "FILE",
             "profile of the run: a trace of torch.profiler (JSON, also gzipped), an SQLite "
             "export of Nsight Systems, or what llmsim trace wrote; several are of several ranks; "
             "example: --profile rank0.json.gz --profile rank7.json.gz")
      ->expected(1, kMostTraces);
  add_option(*command, "--log", options->logs, "FILE",
             "training logs of the run, as for llmsim calibrate log: their step time; "
             "without a profile, which part of the step could explain it; example: --log "
             "train.log")
      ->expected(1, kMostTraces);
  add_option(*command, "--store-site", options->site, "NAME",
             "store what the run says of its cluster (step, memory-bound kernels, network, host, "
             "with their errors), for --site of predict and plan; default none; example: "
             "--store-site our-cluster");
  command
      ->add_flag("--replace", options->replace,
                 "with --store-site: let the site take the place of one so called")
      ->needs("--store-site");
  add_output_options(*command, options->output);
  command->get_option("--format")
      ->description(
          "table, markdown, csv, json, latex or html (one page); csv and json have base units and "
          "stable keys; default table; example: --format html");
  add_database_option(*command, options->database);
  command->footer(
      "Lines add up to the measured step less the predicted one.\n"
      "Exit status: 0 done, 1 error, 2 usage, 3 the run breaks a rule.\n"
      "Example: llmsim diagnose run.json --profile trace.json.gz --log train.log");
  command->callback([options, &status] {
    require_run(options->run);
    status = run_diagnose(*options);
  });
}

}  // namespace llmsim::cli
