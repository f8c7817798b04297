#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/log_summary.h"
#include "calibrate/training_log.h"
#include "cli/commands.h"
#include "cli/help_format.h"
#include "hwdb/runs/run_file.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/text/input_file.h"
#include "reports/table.h"
#include "reports/units.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;
using calibrate::LogSummary;
using namespace reports::columns;

constexpr int kMostLogs = 100'000;
constexpr const char* kOwnRuns = "own-runs";

struct LogOptions {
  std::vector<std::string> logs;
  std::string run;
  std::string output;  // empty: RUN.measured.json beside RUN.json
  std::string id;      // empty: that of the run, or the name of its file
  std::string group;   // empty: that of the run, or own-runs
  std::string format = "table";
  std::string database;
};

std::string output_of(const LogOptions& options) {
  if (!options.output.empty()) return options.output;
  return (fs::path(options.run).parent_path() /
          (fs::path(options.run).stem().string() + ".measured.json"))
      .string();
}

// Logs are never written over.
void check_output(const std::string& output, const LogOptions& options) {
  std::error_code error;
  for (const std::string& log : options.logs) {
    if (fs::equivalent(output, log, error))
      throw Error("-o " + output + ": is a log that is to be read; name another file");
  }
  check_can_be_written(output);
}

std::string source_of(const LogOptions& options) {
  std::string names = fs::path(options.logs.front()).filename().string();
  if (options.logs.size() > 1)
    names += " and " + std::to_string(options.logs.size() - 1) + " more logs";
  return names + ", read by llmsim calibrate log";
}

// Of a run without a name the file's.
std::string id_of(const LogOptions& options, const hwdb::RunRecord& record) {
  if (!options.id.empty()) return options.id;
  const bool named = !record.id.empty() && !record.id.starts_with("number ");
  return named ? record.id : fs::path(options.run).stem().string();
}

hwdb::RunResult result_of(const LogOptions& options, const hwdb::RunRecord& record,
                          const LogSummary& summary, int pipeline_parallel) {
  const std::string group = !options.group.empty()  ? options.group
                            : !record.group.empty() ? record.group
                                                    : kOwnRuns;
  hwdb::RunResult result{.id = id_of(options, record),
                         .group = group,
                         .source = source_of(options),
                         .measured = calibrate::measured(summary, pipeline_parallel),
                         .scored = {}};
  result.scored = calibrate::scored(summary, result.measured, pipeline_parallel);
  if (summary.has_time()) result.noise = summary.noise();
  return result;
}

// --- what was found ---

std::string count(std::size_t number, const char* one, const char* several) {
  return std::to_string(number) + " " + (number == 1 ? one : several);
}

std::string steps_note(const LogSummary& s) {
  std::string note = count(s.steps, "line", "lines");
  if (s.first_step)
    note += ", steps " + std::to_string(*s.first_step) + " to " + std::to_string(*s.last_step);
  if (s.steps_per_line > 1) note += ", one in " + std::to_string(s.steps_per_line) + " steps";
  if (s.ranks > 1) note += ", of " + std::to_string(s.ranks) + " ranks: the slowest counts";
  if (s.restarts > 0) note += ", started again " + count(s.restarts, "time", "times");
  return note;
}

std::string time_note(const LogSummary& s, const hwdb::Measured& measured) {
  std::string note = "step time: median of " + count(s.phase.steps.size(), "line", "lines");
  if (measured.step_time_derived_from) note += ", from " + *measured.step_time_derived_from;
  if (s.rounding > 0.0005)
    note += fmt::format(", rounded to {:.2g} % in the log", 100.0 * s.rounding);
  return note;
}

std::string level_note(const calibrate::TwoLevels& levels) {
  return "two levels: " + reports::human(sim::Seconds(levels.low)) + " and " +
         reports::human(sim::Seconds(levels.high)) +
         fmt::format(" (+{:.1f} %), {:.0f} % of the steps at the upper, ",
                     100.0 * (levels.high / levels.low - 1.0), 100.0 * levels.share_high) +
         count(levels.switches, "switch", "switches");
}

std::string straggler_note(const std::vector<calibrate::Straggler>& stragglers) {
  constexpr std::size_t kShown = 4;
  std::string note = "stragglers: ";
  for (std::size_t i = 0; i < std::min(kShown, stragglers.size()); ++i)
    note += (i > 0 ? ", " : "") + stragglers[i].rank +
            fmt::format(" (+{:.0f} %)", 100.0 * (stragglers[i].slowdown - 1.0));
  if (stragglers.size() > kShown)
    note += " and " + std::to_string(stragglers.size() - kShown) + " more";
  return note;
}

void add_notes(const LogSummary& s, const hwdb::Measured& measured, reports::Table& table) {
  if (s.has_time()) {
    table.add_note(steps_note(s));
    table.add_note(time_note(s, measured));
  } else {
    table.add_note("no step; the run was out of memory");
  }
  if (s.other_batch > 0)
    table.add_note(count(s.other_batch, "line", "lines") +
                   " of another global batch than the run's left out");
  if (s.phase.slow > 0)
    table.add_note(fmt::format("slow: up to {:.2g}x the median, {:.2g} % of the time lost",
                               s.phase.slowest, 100.0 * s.phase.slow_share));
  if (s.phase.levels) table.add_note(level_note(*s.phase.levels));
  if (!s.stragglers.empty()) table.add_note(straggler_note(s.stragglers));
}

reports::Table log_table(const LogSummary& s, const hwdb::RunResult& result) {
  const hwdb::Measured& m = result.measured;
  reports::Table table(
      "Training log of " + result.id,
      {as_text("format"), as_integer("steps", "lines"), as_integer("warm_up", "warm-up"),
       as_integer("slow"), in_seconds("step_time_s", "step time"), in_percent("spread"),
       in_bytes("peak_memory_bytes", "peak"), as_text("memory_kind", "memory"),
       as_text("outcome")});
  const auto of_steps = [&](std::size_t number) {
    return s.has_time() ? reports::Cell(static_cast<std::int64_t>(number)) : reports::Cell();
  };
  table.add_row({s.has_time() ? reports::Cell(s.format) : reports::Cell(), of_steps(s.steps),
                 of_steps(s.phase.warm_up), of_steps(s.phase.slow), reports::cell(m.step_time),
                 s.has_time() ? reports::Cell(s.phase.spread) : reports::Cell(),
                 reports::cell(m.peak_memory), reports::cell(m.memory_kind),
                 reports::cell(m.outcome)});
  if (m.outcome == "ok") table.hide("outcome");
  add_notes(s, m, table);
  return table;
}

int run_calibrate_log(const LogOptions& options) {
  const OutputOptions shown{.format = options.format, .file = {}};
  format_of(shown);  // refuses an unknown one before anything is written
  const std::string output = output_of(options), run_text = hwdb::content_of_file(options.run);
  check_output(output, options);
  const hwdb::RunRecord record = hwdb::parse_run(run_text, options.run);
  const hwdb::Database database = open_database(options.database);
  const sim::Run run = hwdb::RunResolver(database).resolve(record);
  const LogSummary summary =
      calibrate::summary(calibrate::read_training_logs(options.logs), calibrate::step_size(run));
  const hwdb::RunResult result = result_of(options, record, summary, run.strategy.pp);
  write_file(hwdb::run_file_with(result, run_text, options.run), output);
  for (const std::string& warning : summary.warnings) std::cerr << "warning: " << warning << "\n";
  reports::Table table = log_table(summary, result);
  table.add_note("written; go on with: llmsim validate " + output);
  return print_answer(table, shown);
}

}  // namespace

void add_calibrate_log(CLI::App& calibrate, int& status) {
  CLI::App* command = calibrate.add_subcommand(
      "log", "step time and memory of a training log, as a run file that validate and fit read");
  const auto options = std::make_shared<LogOptions>();
  add_option(*command, "logs", options->logs, "LOG",
             "logs of one run, of one rank or several: Megatron-LM, torchtitan, DeepSpeed, "
             "Composer, nanotron, NeMo, MaxText, OLMo, levanter, litgpt, prime-rl, verl, Hugging "
             "Face Trainer, progress bars, JSON lines, CSV (step_time_s, tokens_per_s_per_device, "
             "...), also as Weights & Biases and TensorBoard export it")
      ->required()
      ->expected(1, kMostLogs);
  add_option(*command, "--run", options->run, "FILE",
             "run file with the model, hardware and training of the run, as for llmsim "
             "predict; its batch (sequences), seq_len (tokens) and devices turn tokens/s "
             "into seconds; example: --run run.json")
      ->required();
  add_option(*command, "-o,--output", options->output, "FILE",
             "run file that is written; default RUN.measured.json beside RUN.json; example: "
             "-o measured.json");
  add_option(*command, "--id", options->id, "NAME",
             "name of the run, another for each of several logs; default that of the run "
             "file; example: --id monday");
  add_option(*command, "--group", options->group, "NAME",
             "study that the run belongs to, one for all runs of a cluster; default that of "
             "the run, else own-runs; example: --group our-cluster");
  add_option(*command, "--format", options->format, "FORMAT",
             "of what is printed: table, markdown, csv, json or latex; csv and json have "
             "seconds and bytes; default table; example: --format json");
  add_database_option(*command, options->database);
  command->footer(
      "Warm-up and slow steps are left out of the median; the spread is relative.\n"
      "Examples:\n"
      "  llmsim calibrate log train.log --run run.json -o measured.json\n"
      "  llmsim validate measured.json");
  command->callback([options, &status] { status = run_calibrate_log(*options); });
}

}  // namespace llmsim::cli
