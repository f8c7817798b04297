#include "cli/commands.h"

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/count_comparison.h"
#include "calibrate/step_proxy.h"
#include "cli/output.h"
#include "cli/runtime_program.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/runtime_results.h"
#include "reports/executed_step.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;
constexpr double kBudget = 60.0;      // s, of the measured steps
constexpr double kStepsToTime = 6.0;  // in the budget, at least
// "results.jsonl" has "results.step.json" beside it, which ranks of other nodes read too.
std::string step_file_of(const std::string& results) {
  const fs::path path = results;
  return (path.parent_path() / (path.stem().string() + ".step.json")).string();
}

// What is measured here, as a stored device; on an accelerator that none describes, that of the
// run.
std::string device_here(const CalibrateOptions& options, const hwdb::RunRecord& record,
                        const hwdb::Database& database) {
  const std::string id = measured_device(options);
  if (database.find(hwdb::HardwareKind::Accelerator, id)) return id;
  const bool cpu = options.device == "cpu" || id == "local_cpu";
  if (!cpu && record.hardware.accelerator) return *record.hardware.accelerator;
  throw Error("no device " + id +
              " is stored to predict the step on: measure it once with llmsim calibrate run "
              "FILE --quick, or name a stored one with --id");
}

// The run as the runtime executes it, on the device that is here.
sim::Run executed_run(const CalibrateOptions& options, const hwdb::Database& database) {
  hwdb::RunRecord record = hwdb::read_run(options.step);
  const std::string device = device_here(options, record, database);
  record.training.framework = "libtorch";
  record.training.framework_version.reset();
  record.training.settings.clear();
  const std::optional<int> devices = record.hardware.num_devices;
  record.hardware = {};
  record.hardware.accelerator = device;
  record.hardware.num_devices = devices;
  hwdb::RunResolver resolver(database);
  return resolver.resolve(record);
}

std::vector<std::string> step_arguments(const CalibrateOptions& options, const std::string& file,
                                        int ranks) {
  std::vector<std::string> arguments{runtime_program().string(), "--output",
                                     options.results.front(), "--step", file};
  const int per_node = options.nodes ? ranks / *options.nodes : ranks;
  if (per_node > 1) arguments.insert(arguments.end(), {"--ranks", std::to_string(per_node)});
  if (options.nodes) arguments.insert(arguments.end(), {"--nodes", std::to_string(*options.nodes)});
  if (options.resume) arguments.emplace_back("--resume");
  const double budget = options.budget.value_or(kBudget);
  arguments.insert(arguments.end(), {"--budget", std::to_string(budget)});
  if (options.threads)
    arguments.insert(arguments.end(), {"--threads", std::to_string(*options.threads)});
  add_device(arguments, options);
  return arguments;
}

// Throws Error for what would be refused after minutes: the layout, and where answers go.
void check_step(const CalibrateOptions& options, const sim::Run& run) {
  const sim::Prediction prediction = sim::predict_without_terms(run);
  if (prediction.infeasible && prediction.step_time <= sim::Seconds(0.0))
    throw Error(options.step + ": " + prediction.infeasible->message);
  check_can_be_written(options.results.front());
  if (!options.output.file.empty()) check_can_be_written(options.output.file);
}

}  // namespace

int run_calibrate_step(const CalibrateOptions& options) {
  format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  const int ranks = options.ranks * options.nodes.value_or(1);
  const sim::Run asked = executed_run(options, database);
  const double budget = options.budget.value_or(kBudget);
  calibrate::StepProxy proxy =
      calibrate::step_proxy(asked, {.ranks = ranks, .step = sim::Seconds(budget / kStepsToTime)});
  check_step(options, proxy.run);
  for (const std::string& change : proxy.changes) std::cerr << "proxy: " << change << "\n";
  const std::string file = step_file_of(options.results.front());
  write_file(reports::step_file_text(proxy.run), file);
  run_program(step_arguments(options, file, proxy.run.strategy.num_devices()));
  if (options.nodes) return 0;
  const hwdb::RuntimeResults results = hwdb::read_runtime_results({options.results.front()});
  if (results.steps.empty() || !results.steps.front().run.measured->step_time)
    throw Error(options.results.front() + ": the step did not fit into memory");
  const hwdb::MeasuredStep& step = results.steps.front();
  const reports::ExecutedStep answer{.id = step.run.id,
                                     .step = *step.run.measured->step_time,
                                     .forward = step.forward,
                                     .backward = step.backward,
                                     .optimizer = step.optimizer,
                                     .spread = step.spread,
                                     .peak = step.run.measured->peak_memory,
                                     .prediction = sim::predict(proxy.run),
                                     .counts = calibrate::compare_counts(results, database),
                                     .machine = results.machine.name,
                                     .changes = proxy.changes};
  return print_answer(answer, options.output);
}

}  // namespace llmsim::cli
