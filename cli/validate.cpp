#include "cli/commands.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "calibrate/ablation.h"
#include "calibrate/backtest.h"
#include "calibrate/plan_backtest.h"
#include "calibrate/reliability.h"
#include "calibrate/residuals.h"
#include "calibrate/source_tables.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "hwdb/runs/comparison.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/source_tables.h"
#include "hwdb/store/database.h"
#include "reports/plan_backtest.h"
#include "reports/run_errors.h"
#include "reports/source_tables.h"
#include "reports/validation.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

struct ValidateOptions {
  // Run files, or folders of them; empty: the regression set of the project.
  std::vector<std::string> files;
  std::string scope = "all";  // "dense", "moe", "all"
  std::string format = "table";
  bool ablations = false;    // what settings are worth, as ratios, instead of errors by group
  bool rows = false;         // with ablations: every pair
  bool residuals = false;    // errors by device, framework, precision and what runs wait for
  bool reliability = false;  // how often runs fit that are said to with a probability
  bool runs = false;         // every run, worst first, instead of errors by group
  bool plans = false;        // what the planner chooses, instead of errors by group
  std::string comparisons;   // file of stated pairs; empty: the project's, if `files` is empty
  std::string tables;        // folder of descriptions of source tables; empty: none
  bool skipped = false;      // list every run without a prediction, not only scored ones
  std::optional<std::string> database;  // none: that of the user
};

namespace fs = std::filesystem;

constexpr const char* kRegressionSet = "tests/validation/runs";
constexpr const char* kFirstContact = "tests/validation/first_contact";
constexpr const char* kComparisons = "tests/validation/comparisons.json";

// The root of the project that the program was built in.
fs::path project_root() {
  std::error_code error;
  const fs::path program = fs::canonical("/proc/self/exe", error);
  std::vector<fs::path> roots;
  if (const char* root = std::getenv("LLMSIM_SOURCE_DIR")) roots.emplace_back(root);
  for (fs::path folder = program.parent_path(); !error && folder.has_relative_path();
       folder = folder.parent_path())
    roots.push_back(folder);
  for (const fs::path& root : roots) {
    if (fs::is_directory(root / kRegressionSet, error)) return root;
  }
  throw Error(std::string("no files given, and the project's ") + kRegressionSet +
              " was not found above the program; name run files or folders, or set "
              "LLMSIM_SOURCE_DIR to the project's folder");
}

// The measured runs that were asked for, and what the simulator says about them.
struct Validation {
  std::vector<hwdb::RunFile> files;
  hwdb::Database database;
  hwdb::RunResolver resolver;
  calibrate::Backtest backtest;

  explicit Validation(const ValidateOptions& options);

  sim::Prediction predict(const hwdb::RunRecord& record) {
    return sim::predict(resolver.resolve(record));
  }
};

calibrate::Scope scope_of(const ValidateOptions& options) {
  if (const auto scope = sim::named<calibrate::Scope>(options.scope)) return *scope;
  throw Error("--scope = " + options.scope + ": " +
              sim::alternatives(sim::all_names<calibrate::Scope>()) + " is expected");
}

Validation::Validation(const ValidateOptions& options)
    : files(read_run_files(options.files)),
      database(open_database(options.database.value_or(""))),
      resolver(database) {
  backtest = backtest_of(files, scope_of(options), resolver);
}

// An empty answer is an error.
void require_predictions(const calibrate::Backtest& backtest, const ValidateOptions& options) {
  if (backtest.rows.empty())
    throw Error("--scope = " + options.scope + ": the files have no such run");
  const auto predicted = [](const calibrate::BacktestRow& row) {
    return row.predicted_outcome.has_value();
  };
  if (std::ranges::any_of(backtest.rows, predicted)) return;
  throw Error("no run could be predicted; the first one: " + *backtest.rows.front().skipped);
}

// The runs to list: all without a prediction, or only those whose measured figures are scored and
// those that could not be read.
calibrate::Backtest listed(calibrate::Backtest backtest, bool all) {
  std::erase_if(backtest.rows, [all](const calibrate::BacktestRow& row) {
    return !row.skipped ||
           !(all || row.unread || row.scored.step_time || row.scored.memory || row.scored.outcome);
  });
  return backtest;
}

std::string skipped_text(const calibrate::Backtest& backtest, const ValidateOptions& options,
                         reports::Format format) {
  const std::size_t without = listed(backtest, true).rows.size();
  const calibrate::Backtest shown = listed(backtest, options.skipped);
  if (without > shown.rows.size()) {
    std::cerr << without - shown.rows.size()
              << " runs whose figures are not scored have no prediction; --skipped lists them with "
                 "the reasons\n";
  }
  return shown.rows.empty()
             ? ""
             : "\n" + reports::render(reports::skipped_table(shown), format, style_of({}));
}

std::string validation_text(const calibrate::Backtest& backtest, const ValidateOptions& options,
                            reports::Format format) {
  if (options.residuals)
    return reports::render(reports::residuals_table(calibrate::residuals(backtest)), format,
                           style_of({}));
  if (format == reports::Format::Json) return reports::validation_json(backtest);
  if (options.reliability)
    return reports::render(
        reports::reliability_table(calibrate::reliability(calibrate::verdicts(backtest))), format,
        style_of({}));
  if (options.runs)
    return reports::render(reports::run_errors_table(backtest), format, style_of({}));
  const std::string table =
      reports::render(reports::validation_table(backtest), format, style_of({}));
  return format == reports::Format::Csv ? table : table + skipped_text(backtest, options, format);
}

std::vector<hwdb::Comparison> comparisons_of(const ValidateOptions& options) {
  if (!options.comparisons.empty()) return hwdb::read_comparisons(options.comparisons);
  if (!options.files.empty()) return {};
  return hwdb::read_comparisons((project_root() / kComparisons).string());
}

calibrate::Ablations ablations_of(Validation& validation, const ValidateOptions& options) {
  return calibrate::ablations(
      validation.files, comparisons_of(options), validation.backtest,
      [&](const hwdb::RunRecord& record) { return validation.predict(record); });
}

std::string ablations_text(Validation& validation, const ValidateOptions& options,
                           reports::Format format) {
  const calibrate::Ablations ablations = ablations_of(validation, options);
  if (ablations.pairs.empty())
    throw Error("no two scored runs of one study differ in one setting only");
  if (format == reports::Format::Json) return reports::ablation_json(ablations);
  const bool machine = format == reports::Format::Csv;
  std::string text;
  if (!machine || !options.rows)
    text += reports::render(reports::ablation_table(ablations), format, style_of({}));
  if (!machine && options.rows) text += "\n";
  if (options.rows)
    text += reports::render(reports::ablation_rows_table(ablations), format, style_of({}));
  return text;
}

// Scored figures that cannot be right, on standard error; JSON has those of all runs.
void print_warnings(const Validation& validation) {
  for (const std::string& group : calibrate::computed_groups(validation.files)) {
    std::cerr << "warning: group " << group
              << ": step times lie on straight lines over the batch to a millionth: they were "
                 "computed, not measured\n";
  }
  for (const calibrate::BacktestRow& row : validation.backtest.rows) {
    if (!row.scored.step_time) continue;
    for (const std::string& warning : row.warnings)
      std::cerr << "warning: run " << row.id << ": " << warning << "\n";
  }
}

// Writes a Markdown document beside each description; gives the summary of all.
std::string tables_text(Validation& validation, const ValidateOptions& options,
                        reports::Format format) {
  const calibrate::Ablations ablations = ablations_of(validation, options);
  std::vector<calibrate::FilledProject> projects;
  for (const std::string& path : run_files({options.tables})) {
    projects.push_back(calibrate::filled(
        hwdb::read_source_project(path), validation.files, ablations,
        [&](const hwdb::RunRecord& record) { return validation.predict(record); }));
    write_file(reports::source_document(projects.back()),
               fs::path(projects.back().project.file).replace_extension(".md").string());
  }
  return format == reports::Format::Json
             ? reports::source_json(projects)
             : reports::render(reports::source_summary(projects), format, style_of({}));
}

calibrate::PlanBacktest plan_backtest_of(const ValidateOptions& options) {
  const std::vector<hwdb::RunFile> files = read_run_files(options.files);
  const hwdb::Database database = open_database(options.database.value_or(""));
  hwdb::RunResolver resolver(database);
  ProgressLine line("planning");
  return calibrate::plan_backtest(files, scope_of(options), resolver, 0,
                                  [&](std::size_t done, std::size_t all) { line.tell(done, all); });
}

std::string plans_text(const ValidateOptions& options, reports::Format format) {
  const calibrate::PlanBacktest backtest = plan_backtest_of(options);
  if (backtest.runs.empty()) {
    throw Error("no run could be planned" +
                (backtest.skipped.empty()
                     ? "; the files have no measured run in --scope = " + options.scope
                     : "; the first one: " + backtest.skipped.front().second));
  }
  if (!backtest.skipped.empty())
    std::cerr << backtest.skipped.size()
              << " runs could not be planned; --format json has the reasons\n";
  if (format == reports::Format::Json) return reports::plan_backtest_json(backtest);
  std::string text = reports::render(reports::plan_backtest_table(backtest), format, style_of({}));
  if (format == reports::Format::Csv) return text;
  for (const reports::Table& table :
       {reports::outside_table(backtest), reports::missed_table(backtest)}) {
    if (!table.rows().empty()) text += "\n" + reports::render(table, format, style_of({}));
  }
  return text;
}

int run_validate(const ValidateOptions& options) {
  const reports::Format format = format_of({.format = options.format, .file = {}});
  if (options.plans) {
    write_result(plans_text(options, format), {});
    return 0;
  }
  Validation validation(options);
  require_predictions(validation.backtest, options);
  print_warnings(validation);
  const std::string text = !options.tables.empty() ? tables_text(validation, options, format)
                           : options.ablations
                               ? ablations_text(validation, options, format)
                               : validation_text(validation.backtest, options, format);
  write_result(text, {});
  return 0;
}

// What else than errors by group is asked for.
void add_questions(CLI::App& c, ValidateOptions& o) {
  CLI::Option* ablations = c.add_flag("--ablations", o.ablations,
                                      "what settings are worth: step times and peaks of runs that "
                                      "differ in one setting, as ratios");
  CLI::Option* plans =
      c.add_flag("--plans", o.plans,
                 "what the planner chooses for the problem of every run: layouts that its search "
                 "misses or does not try, how well predictions order measured layouts, and how "
                 "plans compare with the best of them");
  plans->excludes(ablations);
  c.add_flag("--runs", o.runs,
             "every scored run with its errors, worst first; JSON has all runs anyway")
      ->excludes(ablations)
      ->excludes(plans);
  c.add_flag("--residuals", o.residuals,
             "errors by device, framework, precision and by what runs wait for")
      ->excludes(ablations)
      ->excludes(plans)
      ->excludes(c.get_option("--runs"));
  c.add_flag("--reliability", o.reliability,
             "of runs in bins of the probability (%) with which they are said to fit into memory "
             "how many did; example: llmsim validate --reliability --format csv")
      ->excludes(ablations)
      ->excludes(plans)
      ->excludes(c.get_option("--runs"))
      ->excludes(c.get_option("--residuals"));
  c.add_flag("--rows", o.rows, "with --ablations: every pair of runs")->needs(ablations);
  c.add_option("--comparisons", o.comparisons,
               "with --ablations: file of pairs and speed-ups that studies state; default: the "
               "project's, without files")
      ->needs(ablations);
  c.add_option("--tables", o.tables,
               "folder of descriptions of source tables: write each project's tables, predicted "
               "beside measured, as Markdown beside its description, and print a summary")
      ->excludes(ablations)
      ->excludes(plans)
      ->excludes(c.get_option("--runs"))
      ->excludes(c.get_option("--residuals"))
      ->excludes(c.get_option("--reliability"));
  c.add_flag("--skipped", o.skipped, "list every run without a prediction, with the reason")
      ->excludes(plans);
}

}  // namespace

calibrate::Backtest backtest_of(std::span<const hwdb::RunFile> files, calibrate::Scope scope,
                                hwdb::RunResolver& resolver) {
  ProgressLine line("predicting");
  return calibrate::backtest(
      files, scope,
      [&](const hwdb::RunRecord& record) { return sim::predict(resolver.resolve(record)); },
      [&](std::size_t done, std::size_t all) { line.tell(done, all); });
}

std::vector<hwdb::RunFile> read_run_files(const std::vector<std::string>& paths,
                                          bool first_contact) {
  std::vector<std::string> from = paths;
  if (paths.empty()) from.push_back((project_root() / kRegressionSet).string());
  if (paths.empty() && first_contact) from.push_back((project_root() / kFirstContact).string());
  std::vector<hwdb::RunFile> files;
  for (const std::string& path : run_files(from)) files.push_back(hwdb::read_runs(path));
  return files;
}

std::vector<std::string> run_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error)) throw Error(path + ": no such file or folder");
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (entry.path().extension() == ".json") inside.push_back(entry.path().string());
    }
    if (inside.empty()) throw Error(path + ": no *.json file in this folder");
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

void add_validate(CLI::App& program, int& status) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* command =
      program.add_subcommand("validate", "Hold predictions against measured runs, by group");
  command->add_option(
      "files", options->files,
      "run files or folders of them; default: the published runs that ship with the project");
  command
      ->add_option("--scope", options->scope,
                   "dense, moe (experts, expert or context parallelism) or all")
      ->capture_default_str();
  command->add_option("--format", options->format, "table, markdown, csv, json or latex")
      ->capture_default_str();
  add_questions(*command, *options);
  command->add_option("--db", options->database, "database file; default: that of the user");
  command->callback([options, &status] { status = run_validate(*options); });
}

}  // namespace llmsim::cli
