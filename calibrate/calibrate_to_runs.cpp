// llmsim_calibrate_to_runs [--spreads] RUNS [COEFFICIENTS]: fits coefficients and error bars to the
// measured runs in the folder RUNS; with --spreads only the error bars, of the model as it ships.
// Prints the rows of hwdb/facts/coefficients.json, or puts them into the file COEFFICIENTS; on
// stderr what the fit is worth on groups left out.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "calibrate/backtest.h"
#include "calibrate/leave_one_out.h"
#include "calibrate/spreads.h"
#include "hwdb/coefficient_file.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

std::vector<hwdb::RunFile> run_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<hwdb::RunFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back(hwdb::read_runs(path));
  return files;
}

// Leaves out what nobody measured.
std::vector<hwdb::RunFile> measured_files(std::vector<hwdb::RunFile> files) {
  const std::set<std::string> computed = computed_groups(files);
  for (const std::string& group : computed)
    std::fprintf(stderr, "%s is left out: its step times were computed\n", group.c_str());
  std::erase_if(files, [&](const hwdb::RunFile& file) { return computed.contains(file.group); });
  return files;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(path + ": cannot be read");
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw Error(path + ": cannot be written");
}

void print_coefficients(const MeasuredRuns& runs, const LeaveOneOut& result) {
  std::fprintf(stderr,
               "| coefficient | prior | fitted | standard error | groups that move it, in %% "
               "|\n|---|--:|--:|--:|---|\n");
  for (std::size_t k = 0; k < runs.coefficients.size(); ++k) {
    const RunCoefficient& c = runs.coefficients[k];
    std::fprintf(stderr, "| %s %s %s | %.3g to %.0f %% | %.3g | %.1f %% |", c.scope.c_str(),
                 c.id.c_str(), c.key.c_str(), c.prior, 100.0 * c.spread,
                 c.prior * std::exp(result.fit.shifts[k]), 100.0 * result.deviations[k]);
    for (const Influence& i : result.influence[k]) {
      if (std::abs(i.shift) >= 0.005)
        std::fprintf(stderr, " %s %+.1f", runs.groups[i.group].c_str(), 100.0 * i.shift);
    }
    std::fprintf(stderr, " |\n");
  }
}

void print_groups(const Backtest& before, const Backtest& fitted, const Backtest& left_out) {
  std::fprintf(stderr,
               "\n| group | n | at the priors | bias | fitted | bias | left out | bias "
               "|\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
  for (std::size_t g = 0; g < before.groups.size(); ++g) {
    if (!before.groups[g].median_abs_error) continue;
    std::fprintf(stderr, "| %s | %d |", before.groups[g].group.c_str(), before.groups[g].scored);
    for (const Backtest* test : {&before, &fitted, &left_out})
      std::fprintf(stderr, " %.1f %% | %+.1f %% |", 100.0 * *test->groups[g].median_abs_error,
                   100.0 * test->groups[g].bias.value_or(0.0));
    std::fprintf(stderr, "\n");
  }
  std::fprintf(stderr, "| macro | %d | %.1f %% | | %.1f %% | | %.1f %% | |\n",
               before.overall.scored, 100.0 * *before.overall.macro_median_abs_error,
               100.0 * *fitted.overall.macro_median_abs_error,
               100.0 * *left_out.overall.macro_median_abs_error);
}

// What is left once fitted, by framework and device: the mean of ln(predicted / measured) of each
// group.
void print_residuals(const MeasuredRuns& runs, const std::vector<double>& errors) {
  std::map<std::pair<std::string, std::string>, std::map<std::size_t, std::vector<double>>> cells;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    cells[{run.run.framework.id, run.run.cluster.device.id}][run.group].push_back(errors[i]);
  }
  std::fprintf(stderr,
               "\n| framework | device | ln(predicted / measured) of left-out groups: runs, mean, "
               "deviation |\n|---|---|---|\n");
  for (const auto& [cell, groups] : cells) {
    std::fprintf(stderr, "| %s | %s |", cell.first.c_str(), cell.second.c_str());
    for (const auto& [group, of_group] : groups) {
      double mean = 0.0, square = 0.0;
      for (const double e : of_group) mean += e / static_cast<double>(of_group.size());
      for (const double e : of_group)
        square += (e - mean) * (e - mean) / static_cast<double>(of_group.size());
      std::fprintf(stderr, " %s %zu %+.2f %.2f;", runs.groups[group].c_str(), of_group.size(), mean,
                   std::sqrt(square));
    }
    std::fprintf(stderr, " |\n");
  }
}

void print_spreads(const Spreads& spreads, const Backtest& left_out) {
  std::fprintf(stderr, "\n| framework | 90 %% interval over the prediction |\n|---|--:|\n");
  const auto line = [](const std::string& framework, const Spread& s) {
    std::fprintf(stderr, "| %s | %.2f to %.2f |\n", framework.c_str(),
                 std::exp(-1.645 * s.faster * student_factor(s.groups_faster)),
                 std::exp(1.645 * s.slower * student_factor(s.groups_slower)));
  };
  line("(all)", spreads.all);
  for (const auto& [framework, spread] : spreads.by_framework) line(framework, spread);
  std::fprintf(stderr, "\nThe intervals hold %.1f %% of left-out groups' runs.\n",
               100.0 * left_out.overall.coverage.value_or(0.0));
}

void report(const std::vector<hwdb::RunFile>& files, const MeasuredRuns& runs,
            const LeaveOneOut& result) {
  const auto intervals = left_out_intervals(runs, result.left_out);
  const auto of_run = [&](std::size_t run) { return intervals[run]; };
  const Backtest left_out = backtest_of(files, runs, result.left_out, of_run);
  if (!runs.coefficients.empty()) print_coefficients(runs, result);
  print_groups(backtest_of(files, runs, result.before, of_run),
               backtest_of(files, runs, result.fitted, of_run), left_out);
  print_residuals(runs, result.left_out);
  print_spreads(spreads(runs, result.left_out), left_out);
}

struct Options {
  bool spreads_only = false;
  std::string runs;
  std::string coefficients;  // empty: print
};

std::string merged(const std::string& path, const std::vector<hwdb::Coefficient>& fitted,
                   const std::vector<hwdb::Coefficient>& spreads, bool spreads_only) {
  std::string text = text_of(path);
  if (!spreads_only) text = hwdb::with_fitted_rows(text, path, fitted, kRunFit);
  return hwdb::with_fitted_rows(text, path, spreads, kSpreadFit);
}

void fit(const Options& options) {
  const std::vector<hwdb::RunFile> files = measured_files(run_files(options.runs));
  const MeasuredRuns runs = measured_runs(
      files, options.spreads_only ? std::vector<RunCoefficient>{} : run_coefficients(files));
  const LeaveOneOut result = leave_one_out(runs);
  std::vector<hwdb::Coefficient> rows = fitted_rows(runs, result);
  const std::vector<hwdb::Coefficient> bars = spread_rows(runs, spreads(runs, result.left_out));
  report(files, runs, result);
  if (!options.coefficients.empty())
    return write(options.coefficients,
                 merged(options.coefficients, rows, bars, options.spreads_only));
  rows.insert(rows.end(), bars.begin(), bars.end());
  std::fputs(hwdb::coefficients_json(rows).c_str(), stdout);
}

std::optional<Options> options_of(std::vector<std::string> arguments) {
  Options options;
  options.spreads_only = std::erase(arguments, "--spreads") > 0;
  if (arguments.empty() || arguments.size() > 2) return std::nullopt;
  options.runs = arguments[0];
  if (arguments.size() == 2) options.coefficients = arguments[1];
  return options;
}

int run(std::vector<std::string> arguments) {
  const std::optional<Options> options = options_of(std::move(arguments));
  if (!options) {
    std::fprintf(stderr, "usage: llmsim_calibrate_to_runs [--spreads] RUNS [COEFFICIENTS]\n");
    return 2;
  }
  fit(*options);
  return 0;
}

}  // namespace
}  // namespace llmsim::calibrate

int main(int argc, char** argv) {
  try {
    return llmsim::calibrate::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmsim_calibrate_to_runs: %s\n", error.what());
    return 1;
  }
}
