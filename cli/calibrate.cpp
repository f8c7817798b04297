#include "cli/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "calibrate/device_fit.h"
#include "cli/calibrate_verify.h"
#include "cli/database_option.h"
#include "cli/runtime_program.h"
#include "hwdb/measured_device.h"
#include "hwdb/run_resolver.h"
#include "hwdb/runtime_results.h"
#include "hwdb/user_hardware.h"
#include "reports/table.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

using reports::Kind;

constexpr int kMostFiles = 1000;
constexpr const char* kWritten = "result file that is written";
constexpr const char* kRead = "result files of llmsim-runtime, of one device";

std::vector<std::string> runtime_arguments(const CalibrateOptions& options) {
  std::vector<std::string> arguments{runtime_program().string(), "--output", options.results.front()};
  if (options.quick) arguments.emplace_back("--quick");
  if (options.resume) arguments.emplace_back("--resume");
  if (options.threads) arguments.insert(arguments.end(), {"--threads", std::to_string(*options.threads)});
  if (options.budget) arguments.insert(arguments.end(), {"--budget", std::to_string(*options.budget)});
  if (!options.device.empty()) arguments.insert(arguments.end(), {"--device", options.device});
  if (!options.id.empty()) arguments.insert(arguments.end(), {"--id", options.id});
  return arguments;
}

void warn_of_truncation(const hwdb::RuntimeResults& results) {
  if (results.truncated) std::cerr << "warning: " << results.file << ": the last line was cut off and is left out\n";
}

reports::Table quality_table(const calibrate::DeviceFit& fit) {
  reports::Table table(
      "What was fitted for " + fit.device.id,
      {{"operators", "operators"}, {"samples", "samples", Kind::Integer}, {"median_abs_error", "median error", Kind::Percent}});
  for (const calibrate::FitQuality& row : fit.quality) table.add_row({row.what, std::int64_t{row.samples}, row.median_error});
  return table;
}

// One step, predicted and measured.
struct Comparison {
  std::string id;
  sim::Seconds predicted{};
  sim::Seconds measured{};
  double spread = 0.0;

  double error() const { return predicted / measured - 1.0; }
};

std::vector<Comparison> comparisons(const hwdb::RuntimeResults& results, const hwdb::Database& database) {
  hwdb::RunResolver resolver(database);
  std::vector<Comparison> rows;
  for (const hwdb::MeasuredStep& step : results.steps) {
    if (!step.run.measured || !step.run.measured->step_time) continue;
    const sim::Prediction prediction = sim::predict(resolver.resolve(step.run));
    rows.push_back(
        {.id = step.run.id, .predicted = prediction.step_time, .measured = *step.run.measured->step_time, .spread = step.spread});
  }
  if (rows.empty()) throw Error(results.file + ": no training steps; measure with --steps first");
  return rows;
}

double median_error(const std::vector<Comparison>& rows) {
  std::vector<double> errors;
  for (const Comparison& row : rows) errors.push_back(std::abs(row.error()));
  std::sort(errors.begin(), errors.end());
  const std::size_t n = errors.size();
  return n % 2 == 1 ? errors[n / 2] : 0.5 * (errors[n / 2 - 1] + errors[n / 2]);
}

reports::Table comparison_table(const std::vector<Comparison>& rows, const std::string& machine) {
  reports::Table table("Training steps on " + machine, {{"step", "step"},
                                                        {"measured_s", "measured", Kind::Seconds},
                                                        {"predicted_s", "predicted", Kind::Seconds},
                                                        {"error", "error", Kind::Percent},
                                                        {"spread", "spread of repeats", Kind::Percent}});
  for (const Comparison& row : rows) table.add_row({row.id, row.measured, row.predicted, row.error(), row.spread});
  char text[64];
  std::snprintf(text, sizeof text, "%zu step(s), median error %.1f %%", rows.size(), 100.0 * median_error(rows));
  table.add_note(text);
  return table;
}

CLI::App* add_subcommand(CLI::App& command, const char* name, const char* what, CalibrateOptions& options, const char* files,
                         int most) {
  CLI::App* sub = command.add_subcommand(name, what);
  sub->add_option("results", options.results, files)->required()->expected(1, most)->type_name("FILE");
  add_output_options(*sub, options.output);
  add_database_option(*sub, options.database);
  return sub;
}

}  // namespace

void add_calibrate(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand("calibrate", "measure this machine and fit its device to the measurements");
  command->require_subcommand(1);
  const auto options = std::make_shared<CalibrateOptions>();

  CLI::App* run = add_subcommand(*command, "run", "measure here with llmsim-runtime, then import", *options, kWritten, 1);
  run->add_flag("--quick", options->quick, "two minutes, enough for a first calibration; default: an hour");
  run->add_flag("--resume", options->resume, "go on with the file of an earlier run");
  run->add_option("--budget", options->budget, "seconds to measure for")->check(CLI::PositiveNumber);
  run->add_option("--threads", options->threads, "of kernels on a CPU; default: all cores")->check(CLI::PositiveNumber);
  run->add_option("--device", options->device, "cpu, cuda or cuda:N; default: cuda where there is one");
  run->add_option("--id", options->id, "what to call the device; default: local_cpu or local_gpu");
  run->add_flag("--replace", options->replace, "let the device hide an earlier one of that name");
  run->callback([options, &status] { status = run_calibrate_run(*options); });

  CLI::App* importing =
      add_subcommand(*command, "import", "store the measured device with its fitted coefficients", *options, kRead, kMostFiles);
  importing->add_flag("--replace", options->replace, "let the device hide an earlier one of that name");
  importing->callback([options, &status] { status = run_calibrate_import(*options); });

  CLI::App* compare =
      add_subcommand(*command, "compare", "predicted against measured step times of the files", *options, kRead, kMostFiles);
  compare->callback([options, &status] { status = run_calibrate_compare(*options); });

  add_calibrate_verify(*command, status);
}

int run_calibrate_run(const CalibrateOptions& options) {
  run_program(runtime_arguments(options));
  return run_calibrate_import(options);
}

int run_calibrate_import(const CalibrateOptions& options) {
  const hwdb::RuntimeResults results = hwdb::read_runtime_results(options.results);
  warn_of_truncation(results);
  const calibrate::DeviceFit fit = calibrate::fit_device(results);
  hwdb::Database database(options.database.empty() ? hwdb::default_database_path() : options.database, hwdb::Access::Write);
  const std::string document =
      hwdb::hardware_document(fit.device, {fit.ranks_per_node, fit.fabric}, fit.coefficients, fit.coefficients.front().source);
  hwdb::add_hardware(database, document, options.results.front(), options.replace);
  reports::Table table = quality_table(fit);
  table.add_note("stored as accelerator " + fit.device.id + " in " + name_of(database));
  write_result(reports::render(table, format_of(options.output), style_of(options.output)), options.output);
  return 0;
}

int run_calibrate_compare(const CalibrateOptions& options) {
  const hwdb::RuntimeResults results = hwdb::read_runtime_results(options.results);
  warn_of_truncation(results);
  const hwdb::Database database = open_database(options.database);
  const reports::Table table = comparison_table(comparisons(results, database), results.machine.name);
  write_result(reports::render(table, format_of(options.output), style_of(options.output)), options.output);
  return 0;
}

}  // namespace llmsim::cli
