#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string_view>

#include "calibrate/in_parallel.h"
#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/parts.h"
#include "cli/predict_command.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "cli/sweep_grid.h"
#include "hwdb/text/quoting.h"
#include "reports/data_rows.h"
#include "reports/prediction.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

constexpr std::size_t kAtOnce = 512;  // points, between two looks at Ctrl-C and writes to the file

struct SweepOptions {
  RunOptions run;
  std::optional<std::string> part;
  std::string jobs = "0";
  std::string question;  // of the marks of a part
  std::optional<std::string> slurm;
  bool resume = false;
  OutputOptions output{.format = "csv", .file = {}};
  std::string database;
};

// A point of the grid, or why it cannot be asked.
struct SweepRow {
  std::vector<std::string> values;  // of the axes
  sim::Prediction prediction;
  std::string error;
};

// "tp 8, micro_batch 2".
std::string described(const SweepGrid& grid, std::size_t point) {
  std::string text;
  const std::vector<std::string> values = grid.values(point);
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + grid.axes[i].key + " " + values[i];
  return text;
}

// The column that holds its values.
std::string column_of(const SweepAxis& axis) {
  return axis.key == "gpus" ? "num_devices" : axis.key;
}

// Columns for the axes that a summary does not have already under their names.
std::vector<reports::Column> axis_columns(const SweepGrid& grid,
                                          const std::vector<reports::Column>& summary) {
  std::vector<reports::Column> columns;
  for (const SweepAxis& axis : grid.axes) {
    const bool is_there = std::ranges::any_of(
        summary, [&](const reports::Column& column) { return column.key == column_of(axis); });
    columns.push_back({is_there ? "" : axis.key, axis.key, reports::Kind::Text});
  }
  return columns;
}

reports::Table table_of(const SweepGrid& grid, const std::vector<SweepRow>& rows) {
  std::vector<sim::Prediction> predictions;
  for (const SweepRow& row : rows) predictions.push_back(row.prediction);
  const reports::Table summary = reports::summary_table("", predictions);
  const std::vector<reports::Column> axes = axis_columns(grid, summary.columns());
  std::vector<reports::Column> columns;
  for (const reports::Column& axis : axes) {
    if (!axis.key.empty()) columns.push_back(axis);
  }
  columns.insert(columns.end(), summary.columns().begin(), summary.columns().end());
  reports::Table table("Sweep", columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<reports::Cell> cells;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (!axes[a].key.empty()) cells.emplace_back(rows[i].values[a]);
    }
    std::vector<reports::Cell> own = summary.rows()[i];
    for (std::size_t c = 0; !rows[i].error.empty() && c < own.size(); ++c)
      own[c] =
          summary.columns()[c].key == "feasible" ? reports::Cell(rows[i].error) : reports::Cell();
    cells.insert(cells.end(), own.begin(), own.end());
    table.add_row(std::move(cells));
  }
  return table;
}

std::string header_of(const std::string& csv) { return csv.substr(0, csv.find('\n') + 1); }
std::string rows_of(const std::string& csv) { return csv.substr(csv.find('\n') + 1); }

// Predicts points one after the other; each is resolved on one thread, which reads the database.
class Sweep {
 public:
  Sweep(const SweepOptions& options, const SweepGrid& grid, const hwdb::Database& database)
      : grid_(grid),
        requests_(database),
        threads_(
            static_cast<unsigned>(number_in("--jobs", options.jobs, {.least = 0, .most = 1024}))) {}

  std::vector<SweepRow> rows(PartRange part) {
    std::vector<SweepRow> rows = settings(part);
    calibrate::in_parallel(rows.size(), threads_, [&](std::size_t i) {
      attempt(rows[i], [&] { rows[i].prediction = sim::predict(rows[i].prediction.run); });
    });
    return rows;
  }

  std::string csv(PartRange part) {
    return render(table_of(grid_, rows(part)), reports::Format::Csv);
  }

  // The same rows without their figures, at a small part of the time.
  std::string settings_csv(PartRange part) {
    return render(table_of(grid_, settings(part)), reports::Format::Csv);
  }

 private:
  std::vector<SweepRow> settings(PartRange part) {
    std::vector<SweepRow> rows(part.last - part.first);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].values = grid_.values(part.first + i);
      attempt(rows[i],
              [&] { rows[i].prediction.run = requests_.run_of(grid_.run(part.first + i)); });
    }
    return rows;
  }

  static void attempt(SweepRow& row, const auto& step) {
    try {
      if (row.error.empty()) step();
    } catch (const std::exception& error) {
      row.error = error.what();
    }
  }

  const SweepGrid& grid_;
  RunRequests requests_;
  unsigned threads_;
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    lines.emplace_back(text.substr(0, end));
  return lines;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::size_t at = 0;
  try {
    return reports::csv_fields(line, at);
  } catch (const Error&) {  // a quote without an end: no row
    return {};
  }
}

// The rows of a file against those that a sweep has in their places.
class RowCheck {
 public:
  RowCheck(Sweep& sweep, const SweepGrid& grid, const std::string& header)
      : sweep_(sweep), grid_(grid), header_(fields_of(header)) {
    for (const SweepAxis& axis : grid.axes) columns_.push_back(column(column_of(axis)));
  }

  // Whether `line` can be the row of `point`: by the values of the axes where it has them in the
  // words of the question, else by all settings, which takes as long as a prediction.
  bool can_be(const std::string& line, std::size_t point) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() != header_.size()) return false;
    const std::vector<std::string> values = grid_.values(point);
    std::size_t same = 0;
    while (same < values.size() && fields[columns_[same]] == values[same]) ++same;
    if (same == values.size()) return true;
    const std::string settings = lines_of(sweep_.settings_csv({point, point + 1})).at(1);
    const std::vector<std::string> expected = fields_of(settings);
    const auto before = static_cast<std::ptrdiff_t>(column(reports::kFirstFigure));
    return line == settings ||  // a combination that breaks a rule has no settings
           std::equal(fields.begin(), fields.begin() + before, expected.begin());
  }

  bool is(const std::string& line, std::size_t point) {
    return line + "\n" == rows_of(sweep_.csv({point, point + 1}));
  }

 private:
  std::size_t column(std::string_view key) const {
    return static_cast<std::size_t>(std::ranges::find(header_, key) - header_.begin());
  }

  Sweep& sweep_;
  const SweepGrid& grid_;
  std::vector<std::string> header_;
  std::vector<std::size_t> columns_;  // of the axes
};

// Throws Error for the first row of a file that is not the one that a sweep of `part` has in its
// place: a doubled, missing or cut one, or one of another sweep.  The figures of the last row alone
// are checked, as the program that wrote it has written the others.
void check_rows(RowCheck& check, const SweepGrid& grid, PartRange part,
                std::span<const std::string> rows, const std::string& file,
                std::size_t lines_before) {
  const auto refuse = [&](std::size_t row, const std::string& what) {
    const std::size_t before = row + lines_before;
    throw Error(file + ":" + std::to_string(before + 1) + ": " + what +
                "; remove this line and all after it to go on from there (head -n " +
                std::to_string(before) + "), or leave out --resume to write the file anew");
  };
  ProgressLine progress("checking rows");
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t point = part.first + row;
    if (point >= part.last) refuse(row, "more rows than the sweep has");
    const std::string asked = "the row of " + described(grid, point);
    if (!check.can_be(rows[row], point) && !check.is(rows[row], point))
      refuse(row, asked +
                      " is expected here; this one is doubled or cut, or follows a missing one, or "
                      "the file has rows of another sweep");
    if (row + 1 == rows.size() && !check.is(rows[row], point))
      refuse(row, asked + " has other values than this program and database give");
    progress.tell(row, rows.size());
  }
}

// The lines of a file up to its last whole one.
std::string whole_lines(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  if (stream) text << stream.rdbuf();
  std::string there = text.str();
  there.resize(there.rfind('\n') + 1);
  return there;
}

// How many of the rows that a sweep of the part in `range` writes stand in the file already; what
// follows the last of them is cut.  Throws Error where the file has other rows.
std::size_t rows_there(const SweepOptions& options, Sweep& sweep, const SweepGrid& grid,
                       PartRange range) {
  const std::string& file = options.output.file;
  const Part part = part_in(options.part);
  const std::string there = whole_lines(file), mark = first_mark(part, options.question),
                    end = last_mark(part);
  std::string_view rows = there;
  if (rows == mark || rows.empty()) return 0;
  const bool is_own = rows.starts_with(mark);
  rows.remove_prefix(is_own ? mark.size() : 0);
  if (!end.empty() && rows.ends_with(end)) rows.remove_suffix(end.size());
  const std::vector<std::string> lines = lines_of(rows);
  if (!is_own || lines.empty() ||
      lines[0] + "\n" != header_of(sweep.settings_csv({range.first, range.first})))
    throw Error(file + ": has rows of another sweep; without --resume it is replaced");
  RowCheck check(sweep, grid, lines[0]);
  check_rows(check, grid, range, std::span(lines).subspan(1), file, part.is_all() ? 1 : 2);
  std::filesystem::resize_file(file, mark.size() + rows.size());
  return lines.size() - 1;
}

// Row after row, so that what is there can be resumed.  False: interrupted.
bool write_rows(const SweepOptions& options, Sweep& sweep, const SweepGrid& grid, PartRange range) {
  const Part part = part_in(options.part);
  const std::size_t there = options.resume ? rows_there(options, sweep, grid, range) : 0;
  std::ofstream stream(options.output.file,
                       std::ios::binary | (there > 0 ? std::ios::app : std::ios::trunc));
  if (there == 0)
    stream << first_mark(part, options.question) << sweep.csv({range.first, range.first});
  ProgressLine progress("sweeping");
  const Interruption interruption;
  const std::size_t all = range.last - range.first;
  for (std::size_t done = there; done < all && !interruption.came();) {
    const std::size_t next = std::min(all, done + kAtOnce);
    stream << rows_of(sweep.csv({range.first + done, range.first + next})) << std::flush;
    if (!stream) throw Error(options.output.file + ": cannot be written");
    done = next;
    progress.tell(done, all);
  }
  if (interruption.came()) return false;
  if (!(stream << last_mark(part) << std::flush))
    throw Error(options.output.file + ": cannot be written");
  return true;
}

// A job array of Slurm, each task one part, and the line that joins their files, "sweep.1.csv" and
// on: all shells take these names whole.
std::string slurm_script(const SweepOptions& options) {
  const std::string parts =
      std::to_string(number_in("--slurm", *options.slurm, {.least = 1, .most = 100000}));
  const std::string jobs = options.jobs == "0" ? "8" : options.jobs;
  const std::string file = options.output.file.empty() ? "sweep.csv" : options.output.file;
  if (Error::printable(file) != file)
    throw Error("-o " + file +
                ": a name without line feeds and other control characters is "
                "expected");
  const std::filesystem::path path = file;
  const auto part_file = [&](const std::string& part) {
    return hwdb::shell_quoted((path.parent_path() / path.stem()).string() + ".") + part +
           hwdb::shell_quoted(path.extension().string());
  };
  return "#!/bin/bash\n#SBATCH --job-name=llmsim-sweep\n#SBATCH --array=1-" + parts +
         "\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=" + hwdb::shell_quoted(jobs) +
         "\n\nllmsim sweep" + options_text(options.run, options.database) + " --jobs " +
         hwdb::shell_quoted(jobs) + " --part \"$SLURM_ARRAY_TASK_ID\"/" + parts + " --resume -o " +
         part_file("\"$SLURM_ARRAY_TASK_ID\"") + "\n\n# When all have ended:\n# llmsim join " +
         part_file("{1.." + parts + "}") + " -o " + hwdb::shell_quoted(file) + "\n";
}

int run_sweep(const SweepOptions& options) {
  const reports::Format format = format_of(options.output);
  const SweepGrid grid = grid_of(options.run);
  if (options.slurm) {
    write_result(slurm_script(options), {});
    return 0;
  }
  const Part part = part_in(options.part);
  const PartRange range = range_of(part, grid.size());
  if (!part.is_all()) require_csv(format);
  const hwdb::Database database = open_database(options.database);
  Sweep sweep(options, grid, database);
  // What is wrong with all points is wrong with the question.
  if (const std::vector<SweepRow> first = sweep.rows({0, 1});
      grid.axes.empty() && !first[0].error.empty())
    throw Error(first[0].error);
  const bool in_rows = format == reports::Format::Csv && !options.output.file.empty();
  if (options.resume && !in_rows) throw Error("--resume: -o FILE is missing, which holds the rows");
  if (!in_rows) {
    const reports::Table table = table_of(grid, sweep.rows(range));
    write_result(marked(render(table, format, style_of(options.output)), part, options.question),
                 options.output);
    return 0;
  }
  if (write_rows(options, sweep, grid, range)) return 0;
  throw Error("interrupted: " + options.output.file + " has what was done; --resume goes on");
}

}  // namespace

void add_sweep(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "sweep", "predictions over a grid: every combination of lists of values, a row each");
  const auto options = std::make_shared<SweepOptions>();
  add_run_options(*command, options->run);
  add_part_option(*command, options->part, "the grid");
  add_option(*command, "--slurm", options->slurm, "N",
             "print a Slurm job array of so many parts, and the line that joins their files, "
             "instead; default none; example: --slurm 64");
  add_option(*command, "--jobs", options->jobs, "N",
             "threads, 0 to 1024; default 0: one for each core; example: --jobs 8");
  command->add_flag("--resume", options->resume,
                    "go on after the rows that the file of -o has; default: it is replaced; "
                    "example: --resume -o sweep.csv");
  set_group(*command, "Sweep", {"--part", "--slurm", "--jobs", "--resume"});
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 done, 1 error, 2 usage.\n"
      "Lists and ranges: 1,2,4 or 1-4 (1 2 3 4) or 1-16*2 (1 2 4 8 16) or 8-32+8 (8 16 24 32).\n"
      "A combination that breaks a rule is a row that names it.\n"
      "Example: llmsim sweep --model llama-70b --gpus 64-256*2 --tp 4,8 --micro-batch 1,2 -o "
      "sweep.csv");
  command->callback([options, command, &status] {
    options->question = question_of(*command);
    status = run_sweep(*options);
  });
}

}  // namespace llmsim::cli
