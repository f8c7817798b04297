#include "cli/export.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_request.h"
#include "hwdb/launch/launch_file.h"
#include "reports/units.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  RunOptions run;
  std::optional<std::string> target, folder;
  bool force = false;
  std::string database;
};

void warn_of_peak(const sim::Memory& memory) {
  if (memory.fits())
    warn_of_memory(memory.host.node, memory.host.capacity, "a node");
  else
    warn_of_memory(memory.needed(), memory.capacity, "a device");
}

// Throws Error for what the target cannot express of a run that is not written.
void check_can_be_said(const sim::Run& run, const ExportOptions& options,
                       const hwdb::Database& database) {
  hwdb::RunResolver resolver = resolver_of(options.run.site, database);
  hwdb::launch_files(run, *options.target, resolver);
}

int run_export(ExportOptions options) {
  options.target = hwdb::target_of_release(*options.target);
  const auto framework = hwdb::framework_of_target(*options.target);
  if (options.run.run_file.empty() && !options.run.framework) options.run.framework = framework;
  const hwdb::Database database = open_database(options.database);
  const sim::Run run = request_of(options.run, database).run;
  for (const std::string& warning : run.warnings) std::cerr << "warning: " << warning << "\n";
  std::optional<WaitingLine> line(predicting(run));
  const sim::Prediction prediction = sim::predict(run);
  line.reset();
  const auto& no = prediction.infeasible;
  const bool too_large = !prediction.memory.fits() || !prediction.memory.host.fits();
  if (no && !(too_large && options.force)) {
    if (too_large) check_can_be_said(run, options, database);
    say_why_not(no->message + (too_large ? kForceWrites : ""));
    return 3;
  }
  export_run(run, options.target, options.folder, options.run, database);
  if (no) warn_of_peak(prediction.memory);
  return 0;
}

// With a line on what it does not say, where its format has comments.
std::string text_of(const hwdb::LaunchFile& file) {
  if (file.unsaid.empty() || file.name.ends_with(".json")) return file.text;
  const std::size_t first = file.text.starts_with("#!") ? file.text.find('\n') + 1 : 0;
  std::string text = file.text;
  return text.insert(first, "# Not said here, so that the program has its own: " +
                                sim::joined(file.unsaid, ", ") + ".\n");
}

}  // namespace

void export_run(const sim::Run& run, const std::optional<std::string>& target,
                const std::optional<std::string>& folder, const RunOptions& options,
                const hwdb::Database& database) {
  hwdb::RunResolver resolver = resolver_of(options.site, database);
  const std::vector<hwdb::LaunchFile> files =
      hwdb::launch_files(run, target ? *target : hwdb::usual_target(run), resolver);
  if (!hwdb::target_of_framework(run.framework.id))
    std::cerr << "warning: the layout is not in " << files.back().name << ": no target writes files"
              << " of " << run.framework.id << ", whose program has to be told\n";
  for (const hwdb::LaunchFile& file : files)
    if (!file.unsaid.empty())
      std::cerr << "warning: " << file.name << " does not say " << sim::joined(file.unsaid, ", ")
                << ": the program trains with its own\n";
  if (!folder) return write_result(text_of(files.back()), {});
  std::error_code error;
  fs::create_directories(*folder, error);
  if (error) throw Error(*folder + ": cannot be made: " + error.message());
  for (const hwdb::LaunchFile& file : files)
    write_file(text_of(file), (fs::path(*folder) / file.name).string());
}

void warn_of_memory(sim::Bytes needed, sim::Bytes available, const std::string& of_what) {
  std::cerr << "warning: written though it does not fit: " << of_what << " needs "
            << reports::human(needed) << " and has " << reports::human(available) << ", "
            << reports::human(needed - available) << " too little\n";
}

void add_force_option(CLI::App& c, bool& force) {
  c.add_flag("--force", force,
             "write a run that is predicted not to fit in memory, with a warning; rules that are "
             "broken are refused all the same");
}

void add_target_option(CLI::App& c, std::optional<std::string>& target, const char* usual) {
  add_option(c, "--to", target, "NAME",
             "what is written: the launch file of a training program, or of all that start one "
             "on its nodes: " +
                 sim::alternatives(hwdb::launch_targets()) +
                 "; NAME@RELEASE makes sure of a release; " + usual + "; example: --to megatron");
}

void add_export(CLI::App& program, int& status) {
  CLI::App* command =
      program.add_subcommand("export", "the files with which a training program carries out a run");
  const auto options = std::make_shared<ExportOptions>();
  add_run_or_file(*command, options->run);
  add_from_option(*command, options->run);
  add_target_option(*command, options->target, "no default");
  add_force_option(*command, options->force);
  add_option(*command, "-o,--output", options->folder, "DIR",
             "folder to write into; default standard output, the target's own file alone; "
             "example: -o launch");
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 written, 1 error, 2 usage, 3 the run cannot be carried out.\n"
      "What the program cannot express is an error that names it.\n"
      "Example: llmsim export --model llama-70b --gpus 256 --tp 8 --pp 4 --to megatron");
  command->callback([options, &status] {
    require_run(options->run);
    if (!options->target) throw CLI::RequiredError("--to");
    status = run_export(*options);
  });
}

}  // namespace llmsim::cli
