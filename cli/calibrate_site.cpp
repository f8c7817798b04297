#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "calibrate/next_run.h"
#include "calibrate/site_fit.h"
#include "calibrate/site_memory.h"
#include "cli/commands.h"
#include "cli/help_format.h"
#include "hwdb/runs/layout_errors.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/site.h"
#include "reports/table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using namespace reports::columns;

constexpr double kFarOff = 3.0;    // deviations
constexpr std::size_t kNamed = 5;  // runs in a warning

struct SiteOptions {
  std::string name;
  std::vector<std::string> files;
  bool replace = false;
  std::string wanted;  // file of a run; empty: no next run is suggested
  OutputOptions output;
  std::string database;
};

struct ShowOptions {
  std::string name;  // empty: all
  OutputOptions output;
  std::string database;
};

// Without a name the first file stands in its place.
void check_name(const std::string& name) {
  std::error_code none;
  if (std::filesystem::exists(name, none) || name.ends_with(".json"))
    throw Error("NAME = " + name +
                ": is a file; the name of the site stands before its runs, as in: llmsim calibrate "
                "site our-cluster " +
                name);
}

// "+1.2 % +- 3.4 %"
std::string percent(double mean, double deviation) {
  return fmt::format("{:+.1f} % +- {:.1f} %", 100.0 * mean, 100.0 * deviation);
}

std::string percent(double value) { return fmt::format("{:.1f} %", 100.0 * value); }

reports::Table fit_table(const calibrate::SiteFit& fit) {
  reports::Table table(
      "Site " + fit.site.name,
      {as_text("run"), in_seconds("measured_s", "measured"), in_seconds("before_s", "before"),
       in_percent("before_error", "error before"), in_seconds("after_s", "after"),
       in_percent("after_error", "error after")});
  for (const calibrate::SiteFitRow& row : fit.rows) {
    table.add_row({row.id, sim::Seconds(row.measured), sim::Seconds(row.before),
                   row.before / row.measured - 1.0, sim::Seconds(row.after),
                   row.after / row.measured - 1.0});
  }
  const hwdb::Site& site = fit.site;
  for (const auto& [key, words, value] : hwdb::kSiteEffects)
    table.add_note(
        fmt::format("ln of {}: {}", words, percent(site.effects.*value, site.deviations.*value)));
  for (const hwdb::SiteCell& cell : site.cells)
    table.add_note(cell.device + ", " + cell.framework + ", " + cell.precision + ", " +
                   name_of(cell.kind) + ": step " + percent(cell.step, cell.error));
  table.add_note("standard deviation of a step time: " + percent(fit.prior_error) + " before, " +
                 percent(fit.error) + " after");
  return table;
}

reports::Table memory_table(const calibrate::SiteMemoryFit& fit) {
  reports::Table table(
      "Peak memory of its runs",
      {as_text("run"), as_text("kind"), in_bytes("measured_bytes", "measured"),
       in_bytes("before_bytes", "before"), in_percent("before_error", "error before"),
       in_bytes("after_bytes", "after"), in_percent("after_error", "error after")});
  for (const calibrate::SitePeakRow& row : fit.rows)
    table.add_row({row.id, row.kind, row.measured, row.before, row.before / row.measured - 1.0,
                   row.after, row.after / row.measured - 1.0});
  table.add_note("standard deviation of the peak of a run like these: " + percent(fit.prior_error) +
                 " before, " + percent(fit.error) + " after");
  return table;
}

void add_next_run(const calibrate::NextRun& next, const std::string& measured,
                  reports::Table& table) {
  const sim::Strategy& s = next.run.strategy;
  const auto& [lowest, highest] = next.interval;
  table.add_row({measured, std::int64_t{next.run.cluster.num_devices}, std::int64_t{s.tp},
                 std::int64_t{s.pp}, std::int64_t{s.cp}, std::int64_t{s.dp},
                 std::int64_t{s.micro_batch}, std::int64_t{s.global_batch},
                 sim::Seconds(next.step_time), sim::Seconds(lowest), sim::Seconds(highest),
                 highest / lowest});
}

reports::Table next_table(const calibrate::NextRuns& next) {
  reports::Table table(
      "Which run to measure next, to know " + next.now.run.id,
      {as_text("measured"), as_integer("devices"), as_integer("tp"), as_integer("pp"),
       as_integer("cp"), as_integer("dp"), as_integer("micro_batch", "micro-batch"),
       as_integer("global_batch", "global batch"), in_seconds("step_time_s", "its step"),
       in_seconds("lowest_s", "lowest"), in_seconds("highest_s", "highest"),
       as_factor("interval", "ratio")});
  add_next_run(next.now, "nothing more", table);
  for (const calibrate::NextRun& run : next.best) add_next_run(run, "this", table);
  table.add_note("lowest, highest: 90 % interval of " + next.now.run.id +
                 " after that measurement; of each number of devices the run that narrows it most");
  return table;
}

// `checked`: "step times".
template <class Row>
void warn_of_broken_runs(const std::vector<Row>& rows, const char* checked) {
  std::vector<std::string> ids;
  for (const Row& row : rows)
    if (std::abs(row.deviations) > kFarOff) ids.push_back(row.id);
  if (ids.empty()) return;
  const std::size_t more = ids.size() - std::min(ids.size(), kNamed);
  ids.resize(ids.size() - more);
  std::cerr << "warning: far from the others, so that they hardly count: " << sim::joined(ids, ", ")
            << (more > 0 ? " and " + std::to_string(more) + " more" : "") << "; check " << checked
            << " and settings of these runs\n";
}

int run_calibrate_site(const SiteOptions& options) {
  format_of(options.output);
  check_name(options.name);
  hwdb::Database database = open_database_to_write(options.database);
  hwdb::check_site_name(database, options.name, options.replace);
  const std::vector<hwdb::RunFile> files = read_run_files(options.files);
  const std::vector<calibrate::SiteRun> runs = calibrate::site_runs(files, database);
  if (runs.empty() && !options.wanted.empty())
    throw Error("--suggest: a run with a measured step time is needed");
  std::optional<sim::Run> wanted;
  if (!options.wanted.empty())
    wanted = hwdb::RunResolver(database).resolve(hwdb::read_run(options.wanted));
  const calibrate::SiteMemoryFit memory =
      calibrate::fit_site_memory(calibrate::site_peaks(files, database));
  calibrate::SiteFit fit;
  if (runs.empty())
    fit.site = calibrate::site_without_times(options.name, memory, database.version());
  else
    fit =
        calibrate::fit_site(options.name, runs, hwdb::layout_errors(database), database.version());
  fit.site.memory = memory.memory;
  std::optional<reports::Table> next;
  if (wanted) next = next_table(calibrate::next_runs(fit, *wanted));
  hwdb::put_site(database, fit.site, options.replace);
  warn_of_broken_runs(fit.rows, "step times");
  warn_of_broken_runs(memory.rows, "peaks");
  std::vector<reports::Table> tables;
  if (!runs.empty()) tables.push_back(fit_table(fit));
  if (!memory.rows.empty()) tables.push_back(memory_table(memory));
  tables.back().add_note("stored in " + place_of(database) +
                         "; go on with: llmsim predict --site " + options.name);
  if (next) tables.push_back(*std::move(next));
  return print_answer(tables, options.output);
}

reports::Table list_table(const hwdb::Database& database) {
  reports::Table table(
      "Calibrated sites",
      {as_text("site"), in_percent("step"), in_percent("step_deviation", "+-"),
       in_percent("memory_rate", "memory rate"), in_percent("network_rate", "network rate"),
       in_percent("host_time", "host times"), as_integer("peaks"), as_text("source"),
       as_text("fitted_from", "from")});
  table.hide("fitted_from");
  for (const std::string& name : hwdb::site_names(database)) {
    const hwdb::Site site = hwdb::site(database, name);
    const auto time = [&](double value) {
      const bool known = !site.cells.empty() || site.memory.peaks.empty();
      return known ? reports::Cell(value) : reports::Cell();
    };
    table.add_row({name, time(site.effects.step), time(site.deviations.step),
                   time(site.effects.memory), time(site.effects.network), time(site.effects.host),
                   std::ssize(site.memory.peaks), site.source, site.fitted_from});
  }
  if (table.rows().empty())
    table.add_note("none in " + place_of(database) +
                   "; llmsim calibrate site NAME RUNS... stores one");
  return table;
}

reports::Table site_table(const hwdb::Database& database, const std::string& name) {
  const hwdb::Site site = hwdb::site(database, name);
  reports::Table table("Site " + name,
                       {as_text("key"), in_percent("value"), in_percent("standard_error", "+-")});
  for (const hwdb::Coefficient& row : database.coefficients("site", name))
    if (!row.key.starts_with("layout/"))
      table.add_row({row.key, row.value, reports::cell(row.standard_error)});
  table.add_note(std::to_string(site.layouts.points.size()) +
                 " layouts of its runs share what is missed of others like them");
  table.add_note("logarithms of factors; " + site.source + "; from " + site.fitted_from);
  return table;
}

int run_calibrate_show(const ShowOptions& options) {
  format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  const reports::Table table =
      options.name.empty() ? list_table(database) : site_table(database, options.name);
  return print_answer(table, options.output);
}

void add_site(CLI::App& calibrate, int& status) {
  CLI::App* command = calibrate.add_subcommand(
      "site", "store what measured runs of your own cluster say, for predict and plan --site");
  const auto options = std::make_shared<SiteOptions>();
  add_option(*command, "name", options->name, "NAME",
             "what to call the cluster; example: our-cluster")
      ->required();
  add_option(*command, "runs", options->files, "RUNS",
             "run files with measured step times in seconds or peaks of memory in bytes (llmsim "
             "calibrate log writes them), or folders of them; one run is enough, three are better")
      ->required();
  command->add_flag("--replace", options->replace, "let the site take the place of one so called");
  add_option(*command, "--suggest", options->wanted, "RUN",
             "run file whose step time is to be known: also says which run on as many devices or "
             "fewer to measure next, and how far the interval narrows; default none; example: "
             "--suggest large.json");
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Step: ln of measured over predicted step time.  Memory and network rate: ln of the rate of\n"
      "memory-bound kernels and of collectives over the predicted one.  Peaks (allocated, "
      "reserved\n"
      "or of the device) say most of runs that are laid out alike.  Less is believed the fewer\n"
      "runs there are; a run far from the others hardly counts.\n"
      "Layouts like those of the runs share what is missed of them.\n"
      "Example: llmsim calibrate site our-cluster monday.json tuesday.json\n"
      "         llmsim calibrate site our-cluster monday.json --replace --suggest large.json");
  command->callback([options, &status] { status = run_calibrate_site(*options); });
}

void add_show_site(CLI::App& calibrate, int& status) {
  CLI::App* command = calibrate.add_subcommand("show", "the calibrated sites, or one in full");
  const auto options = std::make_shared<ShowOptions>();
  add_option(*command, "name", options->name, "NAME", "site; default all; example: our-cluster");
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->callback([options, &status] { status = run_calibrate_show(*options); });
}

void add_export_site(CLI::App& calibrate, int& status) {
  CLI::App* command = calibrate.add_subcommand(
      "export", "a site as a file that hardware add reads on another machine");
  const auto options = std::make_shared<ShowOptions>();
  add_option(*command, "name", options->name, "NAME", "site; example: our-cluster")->required();
  add_option(*command, "-o,--output", options->output.file, "FILE",
             "write the result to a file; default standard output; example: -o site.json");
  add_database_option(*command, options->database);
  command->callback([options, &status] {
    const hwdb::Database database = open_database(options->database);
    write_result(hwdb::site_document(database, options->name), options->output);
    status = 0;
  });
}

void add_remove_site(CLI::App& calibrate, int& status) {
  CLI::App* command = calibrate.add_subcommand("remove", "take a site away");
  const auto options = std::make_shared<ShowOptions>();
  add_option(*command, "name", options->name, "NAME", "site; example: our-cluster")->required();
  add_database_option(*command, options->database);
  command->callback([options, &status] {
    hwdb::Database database = open_database_to_write(options->database);
    hwdb::remove_site(database, options->name);
    write_result("Removed site " + options->name + " from " + database.path() + "\n", {});
    status = 0;
  });
}

}  // namespace

void add_calibrate_site(CLI::App& calibrate, int& status) {
  add_site(calibrate, status);
  add_show_site(calibrate, status);
  add_export_site(calibrate, status);
  add_remove_site(calibrate, status);
}

}  // namespace llmsim::cli
