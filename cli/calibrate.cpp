#include "cli/commands.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "calibrate/device_fit.h"
#include "calibrate/statistics.h"
#include "calibrate/training_log.h"
#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/output.h"
#include "cli/runtime_program.h"
#include "hwdb/hardware/measured_rows.h"
#include "hwdb/hardware/user_hardware.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/runtime_results.h"
#include "reports/table.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;
using namespace reports::columns;

constexpr int kMostFiles = 1000;
constexpr const char* kWritten = "result file that is written";
constexpr const char* kRead = "result files of llmsim-runtime, of one device";

// Of the budget, where one rank is measured before several.
constexpr double kOneRankShare = 0.6;
// A quick run of several ranks leaves their share of two minutes.
constexpr double kQuickRankBudget = 40.0;

// Where records of several ranks go: "results.jsonl" has "results.ranks.jsonl" beside it.
std::string ranks_file(const std::string& file) {
  const fs::path path = file;
  return (path.parent_path() / (path.stem().string() + ".ranks" + path.extension().string()))
      .string();
}

// Ranks of a CPU share its cores: one alone is measured with its share.  None where llmsim-runtime
// decides.
std::optional<int> threads_of_rank(const CalibrateOptions& options) {
  if (options.threads || options.ranks == 1 || options.nodes) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / options.ranks);
}

// What a run of one rank and one of several have in common.
std::vector<std::string> runtime_arguments(const CalibrateOptions& options,
                                           const std::string& file) {
  std::vector<std::string> arguments{runtime_program().string(), "--output", file};
  if (options.quick) arguments.emplace_back("--quick");
  if (options.resume) arguments.emplace_back("--resume");
  if (const auto threads = threads_of_rank(options))
    arguments.insert(arguments.end(), {"--threads", std::to_string(*threads)});
  add_device(arguments, options);
  return arguments;
}

std::vector<std::string> one_rank_arguments(const CalibrateOptions& options) {
  std::vector<std::string> arguments = runtime_arguments(options, options.results.front());
  const double share = options.ranks > 1 ? kOneRankShare : 1.0;
  if (options.budget)
    arguments.insert(arguments.end(), {"--budget", std::to_string(share * *options.budget)});
  return arguments;
}

std::vector<std::string> ranks_arguments(const CalibrateOptions& options) {
  std::vector<std::string> arguments =
      runtime_arguments(options, ranks_file(options.results.front()));
  arguments.insert(arguments.end(),
                   {"--ranks", std::to_string(options.ranks), "--collectives", "--steps"});
  std::optional<double> budget = options.budget;
  if (budget) *budget *= 1.0 - kOneRankShare;
  if (!budget && options.quick) budget = kQuickRankBudget;
  if (budget) arguments.insert(arguments.end(), {"--budget", std::to_string(*budget)});
  if (options.nodes) arguments.insert(arguments.end(), {"--nodes", std::to_string(*options.nodes)});
  return arguments;
}

// The file that llmsim-runtime is to make, or to go on with.
void check_results_file(const std::string& file, bool resume) {
  std::error_code none;
  const bool taken = fs::exists(file, none) && !fs::is_empty(file, none);
  if (taken && !resume)
    throw Error(file + ": exists already; name another file, or go on with it by --resume");
  check_can_be_written(file);
}

// All that would be refused when the device is stored is refused before an hour of measuring.
void check_before_measuring(const CalibrateOptions& options) {
  check_results_file(options.results.front(), options.resume);
  if (options.ranks > 1) check_results_file(ranks_file(options.results.front()), options.resume);
  if (!options.output.file.empty()) check_can_be_written(options.output.file);
  const std::string id = measured_device(options);
  const hwdb::Database database = open_database_to_write(options.database);
  const auto known = database.find(hwdb::HardwareKind::Accelerator, id);
  if (!known || options.replace) return;
  const bool shipped = known->origin == hwdb::Origin::Shipped;
  throw Error("--id = " + id + ": is taken by an accelerator " +
              (shipped ? "that is shipped with llmsim" : "that was added before") +
              "; choose another, or use --replace; nothing was measured");
}

void warn_of_losses(const hwdb::RuntimeResults& results) {
  if (results.truncated)
    std::cerr << "warning: " << results.file << ": the last line was cut off and is left out\n";
  if (results.rejected.empty()) return;
  std::cerr << "warning: " << results.rejected.size()
            << (results.rejected.size() == 1 ? " record is" : " records are")
            << " left out: " << results.rejected.front() << "\n";
}

// A training log is told from a file that llmsim-runtime did not finish.
hwdb::RuntimeResults results_to_import(const std::vector<std::string>& files) {
  try {
    return hwdb::read_runtime_results(files);
  } catch (const Error&) {
    for (const std::string& file : files) {
      if (const auto format = calibrate::training_log_format(file))
        throw Error(file + ": is a training log (" + *format +
                    "), no result file of llmsim-runtime; read it with llmsim calibrate log " +
                    file + " --run RUN.json");
    }
    throw;
  }
}

reports::Table quality_table(const calibrate::DeviceFit& fit) {
  reports::Table table("What was fitted for " + fit.device.id,
                       {as_text("operators"), as_integer("samples"),
                        in_percent("median_abs_error", "median error")});
  for (const calibrate::FitQuality& row : fit.quality)
    table.add_row({row.what, std::int64_t{row.samples}, row.median_error});
  return table;
}

// One step, predicted and measured.
struct Comparison {
  std::string id;
  sim::Seconds predicted{};
  sim::Seconds measured{};
  double spread = 0.0;
  int ranks = 1;
  sim::Bytes predicted_peak{};
  std::optional<sim::Bytes> measured_peak{};

  double error() const { return predicted / measured - 1.0; }
};

std::vector<Comparison> comparisons(const hwdb::RuntimeResults& results,
                                    const hwdb::Database& database) {
  hwdb::RunResolver resolver(database);
  std::vector<Comparison> rows;
  for (const hwdb::MeasuredStep& step : results.steps) {
    if (!step.run.measured || !step.run.measured->step_time) continue;
    const sim::Prediction prediction = sim::predict(resolver.resolve(step.run));
    rows.push_back({.id = step.run.id,
                    .predicted = prediction.step_time,
                    .measured = *step.run.measured->step_time,
                    .spread = step.spread,
                    .ranks = prediction.run.cluster.num_devices,
                    .predicted_peak = prediction.memory.peak,
                    .measured_peak = step.run.measured->peak_memory});
  }
  if (rows.empty()) throw Error(results.file + ": no training steps; measure with --steps first");
  return rows;
}

// "26 step(s) of 1 rank(s): median error 5.4 %, largest 13.8 %"
std::string summary(const std::vector<Comparison>& rows, const std::string& of) {
  std::vector<double> errors;
  for (const Comparison& row : rows) errors.push_back(std::abs(row.error()));
  return fmt::format("{} step(s){}: median error {:.1f} %, largest {:.1f} %", errors.size(), of,
                     100.0 * calibrate::median(errors), 100.0 * *std::ranges::max_element(errors));
}

// Of all rows, and of those of each number of ranks where these differ.
void add_summaries(reports::Table& table, const std::vector<Comparison>& rows) {
  std::map<int, std::vector<Comparison>> by_ranks;
  for (const Comparison& row : rows) by_ranks[row.ranks].push_back(row);
  table.add_note(summary(rows, ""));
  if (by_ranks.size() == 1) return;
  for (const auto& [ranks, some] : by_ranks)
    table.add_note(summary(some, " of " + std::to_string(ranks) + " rank(s)"));
}

reports::Table comparison_table(const std::vector<Comparison>& rows, const std::string& machine) {
  reports::Table table(
      "Training steps on " + machine,
      {as_text("step"), in_seconds("measured_s", "measured"),
       in_seconds("predicted_s", "predicted"), in_percent("error"),
       in_percent("spread", "spread of repeats"), in_bytes("measured_peak_bytes", "measured peak"),
       in_bytes("predicted_peak_bytes", "predicted peak")});
  for (const Comparison& row : rows) {
    table.add_row({row.id, row.measured, row.predicted, row.error(), row.spread,
                   row.measured_peak ? reports::Cell(*row.measured_peak) : reports::Cell(),
                   row.predicted_peak});
  }
  add_summaries(table, rows);
  return table;
}

CLI::App* add_subcommand(CLI::App& command, const char* name, const char* what,
                         CalibrateOptions& options, const char* files, int most) {
  CLI::App* sub = command.add_subcommand(name, what);
  add_option(*sub, "results", options.results, "FILE", files)->required()->expected(1, most);
  add_output_options(*sub, options.output);
  add_database_option(*sub, options.database);
  return sub;
}

void add_run(CLI::App& command, const std::shared_ptr<CalibrateOptions>& options, int& status) {
  CLI::App* run = add_subcommand(command, "run", "measure here with llmsim-runtime, then import",
                                 *options, kWritten, 1);
  run->add_flag("--quick", options->quick,
                "two minutes, enough for a first calibration; default: an hour");
  run->add_flag("--resume", options->resume, "go on with the file of an earlier run");
  run->add_option("--budget", options->budget, "seconds to measure for")
      ->check(finite_range(1.0, 1e7));
  run->add_option(
         "--ranks", options->ranks,
         "measure as many ranks of this machine together, too; on a CPU they share the cores")
      ->check(CLI::PositiveNumber);
  run->add_option("--nodes", options->nodes,
                  "print the lines that start --ranks on each of so many nodes, and end")
      ->check(CLI::PositiveNumber);
  run->add_option("--threads", options->threads,
                  "of kernels on a CPU; default: all cores, shared by the ranks")
      ->check(CLI::PositiveNumber);
  run->add_option("--device", options->device,
                  "cpu, cuda or cuda:N; default: cuda where there is one");
  run->add_option("--id", options->id, "what to call the device; default: local_cpu or local_gpu");
  add_option(*run, "--step", options->step, "RUN.json",
             "measure the training step of this run alone, for a minute, on the --ranks that there "
             "are, or a smaller one with the same shapes, and put it beside its prediction: time "
             "by passes, memory, collectives; example: --step run.json");
  run->add_flag("--replace", options->replace, "let the device hide an earlier one of that name");
  run->callback([options, &status] { status = run_calibrate_run(*options); });
}

}  // namespace

void add_calibrate(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "calibrate", "measure this machine and fit its device to the measurements");
  command->require_subcommand(1);
  const auto options = std::make_shared<CalibrateOptions>();

  add_run(*command, options, status);
  CLI::App* importing =
      add_subcommand(*command, "import", "store the measured device with its fitted coefficients",
                     *options, kRead, kMostFiles);
  importing->add_flag("--replace", options->replace,
                      "let the device hide an earlier one of that name");
  importing->callback([options, &status] { status = run_calibrate_import(*options); });

  CLI::App* compare =
      add_subcommand(*command, "compare", "predicted against measured step times of the files",
                     *options, kRead, kMostFiles);
  compare->callback([options, &status] { status = run_calibrate_compare(*options); });

  add_calibrate_bench(*command, status);
  add_calibrate_log(*command, status);
  add_calibrate_verify(*command, status);
  add_calibrate_fit(*command, status);
  add_calibrate_site(*command, status);
}

void add_device(std::vector<std::string>& arguments, const CalibrateOptions& options) {
  if (!options.device.empty()) arguments.insert(arguments.end(), {"--device", options.device});
  if (!options.id.empty()) arguments.insert(arguments.end(), {"--id", options.id});
}

std::string measured_device(const CalibrateOptions& options) {
  std::vector<std::string> arguments{runtime_program().string(), "--name"};
  add_device(arguments, options);
  return printed_line(arguments);
}

int run_calibrate_run(const CalibrateOptions& options) {
  if (!options.step.empty()) return run_calibrate_step(options);
  format_of(options.output);  // refused before an hour of measuring
  if (options.nodes) {
    run_program(ranks_arguments(options));
    std::cerr << "then import " << ranks_file(options.results.front())
              << " together with a file of one rank\n";
    return 0;
  }
  check_before_measuring(options);
  run_program(one_rank_arguments(options));
  CalibrateOptions importing = options;
  if (options.ranks > 1) {
    run_program(ranks_arguments(options));
    importing.results.push_back(ranks_file(options.results.front()));
  }
  return run_calibrate_import(importing);
}

int run_calibrate_import(const CalibrateOptions& options) {
  const hwdb::RuntimeResults results = results_to_import(options.results);
  warn_of_losses(results);
  hwdb::Database database = open_database_to_write(options.database);
  const calibrate::DeviceFit fit =
      calibrate::fit_device(results, calibrate::efficiency_of_libtorch(database));
  const std::string document =
      hwdb::hardware_document(fit.device, {fit.fabric_kind, fit.ranks_per_node, fit.fabric},
                              fit.coefficients, fit.coefficients.front().source);
  hwdb::add_hardware(database, document, options.results.front(), options.replace);
  reports::Table table = quality_table(fit);
  for (const std::string& note : fit.notes) table.add_note(note);
  table.add_note("stored as accelerator " + fit.device.id + " in " + place_of(database));
  return print_answer(table, options.output);
}

int run_calibrate_compare(const CalibrateOptions& options) {
  const hwdb::RuntimeResults results = hwdb::read_runtime_results(options.results);
  warn_of_losses(results);
  const hwdb::Database database = open_database(options.database);
  const reports::Table table =
      comparison_table(comparisons(results, database), results.machine.name);
  return print_answer(table, options.output);
}

}  // namespace llmsim::cli
